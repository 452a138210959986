"""Kernels that need not import the libraries again: a plugin of pytest for the gate (`pytest -p warm_kernels`).

Sixty notebooks import the same half dozen libraries, which takes longer than most of them. Here one process imports these, and each
notebook gets a process of its own that is forked from it. The package, the experiments and the kit are not among them: each notebook
imports them itself. The path, the variables of the environment, the folder and the session are those of a kernel that starts from
nothing; `tools/execute.py`, which writes the outputs that the gate compares, starts such kernels. Pictures, which the gate draws and
does not compare, are drawn once, small and as they come; for the book they are drawn twice, the first time to find out how much room
their letters need.
"""

import atexit
import gc
import multiprocessing
import os
import subprocess
import sys
import threading

import jupyter_client.provisioning.local_provisioner as provisioner

LIBRARIES = ("ipykernel.ipkernel", "ipykernel.kernelapp", "matplotlib.pyplot", "matplotlib.backends.backend_agg", "numpy.testing",
             "autograd.scipy.special", "mpmath", "polyagamma", "scipy.cluster.vq", "scipy.integrate", "scipy.optimize", "scipy.stats",
             "sklearn.datasets", "sklearn.linear_model", "sklearn.utils.multiclass")
BACKEND = "module://matplotlib_inline.backend_inline"          # what ipykernel asks for; matplotlib reads it when it is imported

ONCE = {"print_figure_kwargs": {"bbox_inches": None, "dpi": 60}}


class Forked:
    """What jupyter_client wants of a subprocess.Popen."""
    stdin = stdout = stderr = None

    def __init__(self, process):
        self.process, self.pid = process, process.pid

    def poll(self):
        return self.process.exitcode

    def wait(self, timeout=None):
        self.process.join(timeout)
        return self.process.exitcode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.process.kill()

    def terminate(self):
        self.process.terminate()


def leave_with(parent):
    """End this process when that one ends, however it does."""
    parent.join()
    os._exit(1)


def serve(file, path, env, cwd, ready):
    """Be a kernel."""
    gc.freeze()                                                 # the libraries stay, and are not looked through again and again
    os.setsid()
    threading.Thread(target=leave_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    ready.send_bytes(b"a session of its own")
    ready.close()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.modules["debugpy"] = None                               # nobody debugs here, and its import is two thirds of the start
    sys.path[:], sys.argv[:] = path, ["ipykernel_launcher", "-f", file]
    from ipykernel.kernelapp import launch_new_instance
    from matplotlib.figure import Figure
    from traitlets.config import Config
    Figure.get_layout_engine = lambda self: None                # half of the time of a picture is to find room for letters
    launch_new_instance(parent_handle=os.getppid(), config=Config(InlineBackend=ONCE))


def pytest_configure(config):
    """Kernels of this interpreter are forked from now on, where processes can be."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return
    context, start = multiprocessing.get_context("forkserver"), provisioner.launch_kernel
    path = subprocess.run([sys.executable, "-c", "import sys; print(*sys.path[1:], sep='\\n')"], stdout=subprocess.PIPE, text=True, check=True)
    path = path.stdout.splitlines()

    def launch_kernel(cmd, cwd=None, env=None, **options):
        if cmd[1:4] != ["-m", "ipykernel_launcher", "-f"] or len(cmd) != 5:
            return start(cmd, cwd=cwd, env=env, **options)
        os.environ["MPLBACKEND"] = BACKEND
        context.set_forkserver_preload(list(LIBRARIES))
        heard, ready = context.Pipe(duplex=False)
        process = context.Process(target=serve, args=(cmd[4], path, env or dict(os.environ), cwd or os.getcwd(), ready))
        process.start()
        atexit.register(process.kill)                           # multiprocessing would wait for it
        ready.close()
        heard.recv_bytes()                                      # jupyter_client kills whole sessions: not before it has one
        return Forked(process)

    provisioner.launch_kernel = launch_kernel
