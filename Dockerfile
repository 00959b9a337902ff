# A server of Interlock, which people and workers on other machines use. It has git but no agent programs: agents run
# where their work is, with `interlock work` or beside a person; or add theirs in an image FROM this one.
FROM debian:bookworm-slim

RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git python3-venv && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN python3 -m venv /opt/interlock && /opt/interlock/bin/pip install --no-cache-dir '/source[postgres]' && rm -rf /source
RUN useradd --uid 1000 --create-home interlock && install -d -o interlock -g interlock -m 700 /data

ENV PATH=/opt/interlock/bin:/usr/bin:/bin
ENV INTERLOCK_HOME=/data
USER interlock
WORKDIR /data
VOLUME /data
EXPOSE 8420
HEALTHCHECK --interval=10s --timeout=5s \
  CMD ["/opt/interlock/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8420/readyz')"]
# The container's own network is what it listens on: publish the port on 127.0.0.1, or behind a proxy with TLS.
CMD ["interlock", "up", "--host", "0.0.0.0", "--plain", "--port", "8420"]
