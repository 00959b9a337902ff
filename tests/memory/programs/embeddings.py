"""An endpoint for embeddings, as OpenAI's, that needs no model: words and their parts, hashed. It prints its port."""

import base64
import hashlib
import json
import math
import re
import struct
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def embedded(text: str, size: int) -> list[float]:
    vector = [0.0] * size
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        for part in [word, *(word[n : n + 3] for n in range(len(word) - 2))]:
            number = int.from_bytes(hashlib.blake2b(part.encode(), digest_size=8).digest(), "big")
            vector[number % size] += 1 if number >> 60 & 1 else -1
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / length for value in vector]


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        vectors: list[Any] = [embedded(text, asked.get("dimensions") or 384) for text in texts]
        if asked.get("encoding_format") == "base64":
            vectors = [base64.b64encode(struct.pack(f"<{len(one)}f", *one)).decode() for one in vectors]
        data = [{"object": "embedding", "index": n, "embedding": one} for n, one in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        body = json.dumps({"object": "list", "model": asked.get("model"), "data": data, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
