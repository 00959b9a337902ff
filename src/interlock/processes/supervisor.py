"""The supervisor of one run: everything that the run starts descends from it, also what daemonises itself.

    python -I -S -E supervisor.py DESCRIPTOR GRACE UNSET PROGRAM [ARGUMENT …]

It starts the program in a process group of its own, with the environment but for the names in UNSET (comma separated)
and with its own three standard streams, which it then gives up. On Linux it is a subreaper: what loses its parent
becomes its child, not init's, so that what belongs to a run can be told by descent, whatever it does to itself. Before
it starts the program it takes a lock on the directory of its home, by which what hides its ancestors from itself knows
that they are there (`ancestry.hidden_run`).

Over the socket DESCRIPTOR it says one line when the program runs (`0`, or the number of the error), and one when it has
ended: its exit code, negative for a signal, and whether the supervisor had been told to go by then (`0` or `1`), since
that ends the program. It goes when told to (TERM) and nothing is left below it. When the other
end of the socket is gone, so is whoever cared: it ends everything below it (TERM, GRACE seconds, KILL) and goes. Where
the user keeps a daemon that the run leaves behind, it stays as long as that: what is started there is the run's.

A program that is started for each run has to start fast: nothing of ours is imported before there is somebody to end.
"""

from __future__ import annotations

# `signal` itself makes enums of its constants, which costs as much as all the rest.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

NAME = b"interlock-run"
"""What processes of this program are called in the system's table."""

OF_A_TERMINAL = ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTSTP")
"""What a terminal tells all of a group at once. This program is started with these blocked: none is meant for it."""

_SET_DEATH_SIGNAL, _SET_NAME, _SET_CHILD_SUBREAPER = 1, 15, 36


def main(arguments: list[str]) -> None:
    """Start the program, and stay until nothing of it is left."""
    wire, grace, unset, program = int(arguments[0]), float(arguments[1]), arguments[2].split(","), arguments[3:]
    os.set_inheritable(wire, False)
    _forget_the_terminal()
    _prctl(_SET_CHILD_SUBREAPER, 1)
    _prctl(_SET_NAME, NAME)
    _hold(os.environ.get("INTERLOCK_RUN_HOME") or os.environ.get("INTERLOCK_HOME"))
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    error, child = _start(program, unset)
    # Handlers are set after the fork: the program gets signals as they were.
    asked: list[int] = []
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    # Hold nothing that others wait for, or want to remove.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
    os.chdir("/")
    _say(wire, error)
    import select  # now that nothing waits for us

    ended = bool(error)
    while True:
        left, code = _reap(child)
        if code is not None:
            ended = True
            _say(wire, code, bool(asked))
        if not left and (ended or asked):
            return
        ready, _, _ = select.select([wire, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
        if wire in ready:  # Who started us is gone.
            _end_all(grace)
            try:
                while True:
                    os.waitpid(-1, 0)
            except ChildProcessError:
                return


def _forget_the_terminal() -> None:
    """Drop what a terminal said while we were still in the group of who started us, and listen from now on."""
    numbers = [getattr(signal, name) for name in OF_A_TERMINAL]
    for number in numbers:
        handler = signal.getsignal(number)
        signal.signal(number, signal.SIG_IGN)
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def _prctl(option: int, value: int | bytes) -> None:
    if sys.platform != "linux":
        return
    # Without `ctypes`, whose import alone would double the time that this program takes to start.
    import _ctypes

    call = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    _ctypes.call_function(call, (option, value, 0, 0, 0))


def _hold(home: str | None) -> None:
    """Take a share of the lock on that directory, for as long as this process lives."""
    if sys.platform != "linux" or not home:
        return
    import fcntl

    try:
        fcntl.lockf(os.open(home, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pass  # It is on another machine, or in a file system without locks.


def _start(program: list[str], unset: list[str]) -> tuple[int, int]:
    """(0, pid), or the number of the error that starting it met."""
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    failed, failing = os.pipe()
    child = os.fork()
    if child == 0:
        number = 1
        try:
            os.setpgid(0, 0)
            _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)  # A program that ends its supervisor ends itself.
            for ignored in ("SIGPIPE", "SIGXFSZ"):  # Python's own doing; no program expects it.
                signal.signal(getattr(signal, ignored), signal.SIG_DFL)
            os.execvpe(program[0], program, environment)
        except OSError as error:
            number = error.errno or 1
        finally:
            os.write(failing, str(number).encode())
            os._exit(127)
    os.close(failing)
    found = os.read(failed, 16)
    os.close(failed)
    return int(found or 0), child


def _reap(child: int) -> tuple[bool, int | None]:
    """Whether any children are left, and the exit code of the program where it has just ended."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False, code
        if pid == 0:
            return True, code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def _end_all(grace: float) -> None:
    """End everything below this process."""
    if sys.platform != "linux":
        import site

        site.main()  # for psutil, which need not be installed beside us
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from interlock.processes import ancestry, groups, ref

    token = os.environ.get(ancestry.RUN_TOKEN)
    groups.end_group(ref.current(), grace=grace, token=token)


def _say(wire: int, number: int, told: bool = False) -> None:
    try:
        os.write(wire, b"%d %d\n" % (number, told))
    except OSError:
        pass  # Nobody listens any more; the next look sees it.


if __name__ == "__main__":
    main(sys.argv[1:])
