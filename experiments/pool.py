"""Many cells side by side, each in a process of its own."""

import multiprocessing
import multiprocessing.connection
import signal
import sys
import time

from experiments.store import key


def _work(work, cell, answer):
    signal.signal(signal.SIGINT, signal.SIG_IGN)         # the parent decides what an interrupt means
    try:
        answer.send((work(cell), None))
    except Exception as error:
        answer.send((None, f"{type(error).__name__}: {error}"))


def run_many(cells, work, save, jobs=1, budget=None, progress=None):
    """Run work(cell) of every cell and hand each record to `save` as it comes.   -> (number done, {cell: error}, number left)

    budget: minutes after which no new cell is started.  Each cell has a process of its own: one that dies is a failed cell, the others
    go on.  Ctrl-C drops the cells in hand and keeps all records.
    """
    end = time.monotonic() + 60 * budget if budget else float("inf")
    done, failed, waiting, running = 0, {}, iter(cells), {}
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    try:
        while True:
            while len(running) < jobs and time.monotonic() < end:
                cell = next(waiting, None)
                if cell is None:
                    break
                receive, send = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(work, cell, send), daemon=True)
                process.start()
                send.close()                             # the worker's end is the only one: when it dies, we hear the end
                running[receive] = cell, process
            if not running:
                break
            for receive in multiprocessing.connection.wait(list(running)):
                cell, process = running.pop(receive)
                try:
                    record, error = receive.recv()
                except EOFError:
                    record, error = None, "its process died"
                process.join()
                if error is None:
                    save(record)
                    done += 1
                else:
                    code = f" (exit code {process.exitcode})" if process.exitcode else ""
                    failed[cell] = error + code
                    print(f"{key(cell)}: {failed[cell]}", file=sys.stderr)
                if progress:
                    progress(cell, record)
    except KeyboardInterrupt:
        print("interrupted: the records of finished cells are kept", file=sys.stderr)
    finally:
        for _, process in running.values():
            process.terminate()
    return done, failed, len(cells) - done - len(failed)
