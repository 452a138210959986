"""Plant one fault at a time in the package and see that somebody notices.

    python tests/mutants.py [--jobs 2] [--only WORD ...] [--list]

A mutant is a small text change of one module. The package is copied into a temporary folder, the fault planted there, and then
(a) the chapter that exports the module is run as one plain Python script: its own export cells, with the fault, and every
    other cell but `#| show` and `#| solution`; a cell that raises has noticed;
(b) if no cell noticed, the test files that the mutant names run against the faulty copy.
A mutant that nobody notices survives, and a survivor is an error, and so is a mutant whose text does not occur exactly once.
The control runs the same chapters and tests on a copy without a fault; they have to pass.
"""
import argparse
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nbformat
from tangle import ABOVE, PLAIN

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 900                                          # seconds; running out of them is no verdict
NOT_A_FAULT = ("SyntaxError", "NameError", "ImportError", "ModuleNotFoundError", "UnboundLocalError")


class Mutant(NamedTuple):
    """One fault.  `old` occurs once in the module, however it is broken into lines; `tests`: who else may notice."""
    id: str
    module: str
    old: str
    new: str
    tests: tuple = ()


class Outcome(NamedTuple):
    mutant: Mutant
    killed_by: str                                     # "" if it survived
    problem: str                                       # why this is not a valid mutant, or ""
    seconds: float


@cache
def chapters():
    """{name of a module: path of its notebook}; the last part of the name is enough."""
    out = {}
    for path in sorted((ROOT / "book").rglob("*.ipynb")):
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts):
            if nbformat.read(path, as_version=4).metadata.get("tangle"):
                out[path.stem] = path
    return out


def plant(mutant, text):
    """(text with the fault, how often the place was found): white space and line breaks do not matter in the search."""
    pieces = re.findall(r"\w+|[^\w\s]", mutant.old)
    pattern = re.escape(pieces[0])
    for left, right in zip(pieces, pieces[1:]):
        both_words = left[-1].isidentifier() and (right[0].isalnum() or right[0] == "_")
        pattern += (r"\s+" if both_words else r"\s*") + re.escape(right)
    return re.subn(pattern, lambda match: mutant.new, text)


def module_file(mutant, root):
    """The module that a mutant changes, of a checkout or of its copy."""
    notebook = chapters().get(mutant.module, ROOT / "book" / mutant.module)             # a plain module has no chapter
    return root / "cmn_literate" / notebook.relative_to(ROOT / "book").with_suffix(".py")


def occurrences(mutant):
    module = module_file(mutant, ROOT)
    return plant(mutant, module.read_text())[1] if module.exists() else 0


@cache
def cells_of(notebook):
    """[(cell name, source)] of the code cells of a chapter that are run."""
    return [(f"{notebook.stem}-{index + 1:02d}", cell.source) for index, cell in enumerate(nbformat.read(notebook, as_version=4).cells)
            if cell.cell_type == "code" and not re.match(r"#\| (show|solution)\b", cell.source)]


def script_of(notebook, mutant=None):
    """(text of the chapter as one script, [(first line, cell name)]): the fault is planted in the export cells."""
    lines, starts, planted = [], [], 0
    for name, source in cells_of(notebook):
        if mutant and source.startswith("#| export"):
            source, count = plant(mutant, source)
            planted += count
        starts.append((len(lines) + 1, name))
        lines += [*source.splitlines(), ""]
    if mutant and planted != 1:
        raise ValueError(f"found {planted} times in the export cells of {notebook.name}")
    return "\n".join(lines), starts


def sandbox(folder):
    """Package, experiments, tests and stored records without caches, so that nothing stale is imported."""
    clean = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("cmn_literate", "experiments", "tests", "tools", "results"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, folder / name, ignore=clean)
    for name in ("pyproject.toml", "_toc.yml"):
        shutil.copy(ROOT / name, folder)


def run(command, folder, inside="."):
    """(exit code, output) of Python on the copy in folder."""
    env = {**os.environ, "PYTHONPATH": str(folder), "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1",
           "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": "", "PYTHONHASHSEED": "0", "CMN_CASES": "all"}
    try:
        done = subprocess.run([sys.executable, *command], cwd=folder / inside, env=env, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise ValueError(f"{command[-1]} took more than {TIMEOUT} seconds") from None
    return done.returncode, done.stdout


def last_error(output):
    """Name of the exception that ended a script."""
    names = re.findall(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt))\b", output, re.MULTILINE)
    return names[-1].rpartition(".")[2] if names else "exit"


def run_chapter(notebook, folder, mutant=None):
    """("cell: error", output) of the cell that raised, or ("", output)."""
    text, starts = script_of(notebook, mutant)
    inside = notebook.relative_to(ROOT).parent         # where a notebook runs
    (folder / inside).mkdir(parents=True)
    (folder / inside / "chapter.py").write_text(text)
    code, output = run(["chapter.py"], folder, inside)
    if code == 0:
        return "", output
    frames = [int(n) for n in re.findall(r'chapter\.py", line (\d+)', output)]
    cell = max((s for s in starts if frames and s[0] <= frames[0]), default=(0, notebook.stem))[1]
    return f"{cell}: {last_error(output)}", output


def test_file(name):
    """Where a test file stands, from the root of a checkout."""
    return next((p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").rglob(name)), f"tests/{name}")


def run_tests(files, folder):
    """("file::test", output) of the first test that failed or whose fixture did, or ("", output)."""
    here = "import cmn_literate, pathlib, sys; sys.exit(pathlib.Path(cmn_literate.__file__).parent.parent != pathlib.Path.cwd())"
    assert run(["-c", here], folder)[0] == 0, "the copy is not what would be tested"
    code, output = run(["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *map(test_file, files)], folder)
    if code not in (0, 1):                             # no such file, nothing collected, a collection error: nobody has looked
        raise ValueError(f"pytest ended with {code} on {', '.join(files)}")
    failed = re.findall(r"^(?:FAILED|ERROR) (?:\w+/)*(.+?)(?: - .*)?$", output, re.MULTILINE)
    return (failed[0] if code else ""), output


def try_mutant(mutant, owner):
    """Plant the fault, look for somebody who notices."""
    start, killed_by, problem, output = time.time(), "", "", ""
    count = occurrences(mutant)
    if count != 1:
        return Outcome(mutant, "", f"text occurs {count} times in {mutant.module}.py", 0.0)
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name).resolve()
        sandbox(folder)
        module = module_file(mutant, folder)
        module.write_text(plant(mutant, module.read_text())[0])
        try:
            compile(module.read_text(), str(module), "exec")
            if mutant.module not in (*PLAIN, *ABOVE):
                killed_by, output = run_chapter(owner[mutant.module], folder, mutant)
            if not killed_by and mutant.tests:
                killed_by, output = run_tests(mutant.tests, folder)
        except (SyntaxError, KeyError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
    if killed_by and any(f"{e}:" in output for e in NOT_A_FAULT):
        problem = f"breaks the module instead of its mathematics ({last_error(output)})"
    return Outcome(mutant, killed_by, problem, time.time() - start)


def control(mutants, owner, jobs=2):
    """[(what, seconds, failure or "")] of every chapter and test file that the mutants use, without a fault."""
    with tempfile.TemporaryDirectory(prefix="control-") as name:
        base = Path(name).resolve()

        def one(task):
            start, folder = time.time(), base / re.sub(r"\W", "-", str(task[1]))
            folder.mkdir()
            sandbox(folder)
            try:
                failure, output = run_chapter(owner[task[1]], folder) if task[0] == "chapter" else run_tests([task[1]], folder)
            except ValueError as error:
                failure, output = str(error), ""
            return f"{task[0]} {task[1]}", time.time() - start, failure and f"{failure}\n{output[-2000:]}"
        tasks = [("chapter", m) for m in dict.fromkeys(m.module for m in mutants) if m in owner]
        tasks += [("tests", f) for f in dict.fromkeys(f for m in mutants for f in m.tests)]
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, tasks))


def try_all(mutants, jobs=2, report=lambda outcome: None):
    owner, outcomes = chapters(), []
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda m: try_mutant(m, owner), mutants):
            report(outcome)
            outcomes.append(outcome)
    return outcomes


def line(outcome):
    m = outcome.mutant
    status = outcome.problem or (f"killed by {outcome.killed_by}" if outcome.killed_by else "SURVIVED")
    return f"{m.id:34s} {m.module:22s} {outcome.seconds:5.1f} s  {status}"


def summary(outcomes):
    bad = [o for o in outcomes if o.problem]
    killed = [o for o in outcomes if o.killed_by and not o.problem]
    chapter = sum(not o.killed_by.startswith("test_") for o in killed)
    return (f"{len(outcomes)} planted, {len(killed)} killed ({chapter} by their chapter, {len(killed) - chapter} by tests), "
            f"{len(outcomes) - len(killed) - len(bad)} survived, {len(bad)} invalid")


# ---- the faults -------------------------------------------------------------------------------------------------------
STICK, UPDATES, BOUND, FIT, PACKED, VALUES, PREDICT, QUADRATURE, CLASSIFIER, CHECKS = ((f"test_{name}.py",) for name in
                                               ("stick_pg_expfam", "updates", "elbo", "fit", "packed", "right_values", "predict", "quadrature", "classifier", "checks"))

MUTANTS = [
    # stick_breaking
    Mutant("stick-sign", "stick_breaking", "-anp.logaddexp(0.0, -psi), -anp.logaddexp(0.0, psi)", "-anp.logaddexp(0.0, psi), -anp.logaddexp(0.0, -psi)"),
    Mutant("stick-no-reach", "stick_breaking", "anp.cumsum(log_pass, axis=-1)", "log_pass"),
    Mutant("counts-off-by-one-stick", "stick_breaking", "axis=-1)[..., :0:-1]", "axis=-1)[..., -2::-1]"),
    Mutant("counts-kappa-half", "stick_breaking", "weights[..., :-1] - b / 2", "weights[..., :-1] - b"),
    Mutant("logits-forget-later", "stick_breaking", "later = anp.logaddexp(this, later)", "later = this"),
    # polya_gamma
    Mutant("pg-mean-half", "polya_gamma", "(1 - e) / (2 * y * (1 + e))", "(1 - e) / (y * (1 + e))"),
    Mutant("pg-mean-series", "polya_gamma", "_even_series(_SINH, x**2 / 4)", "_even_series(_SINH, x**2 / 2)"),
    Mutant("pg-var-far", "polya_gamma", "(1 - e**2 - 2 * y * e)", "(1 - e**2 + 2 * y * e)"),
    Mutant("pg-var-near", "polya_gamma", "_even_series(_SINH[1:], x**2)", "_even_series(_SINH[1:], x)"),
    Mutant("log-cosh-constant", "polya_gamma", "y / 2 + anp.log1p(anp.exp(-y)) - math.log(2.0)", "y / 2 + anp.log1p(anp.exp(-y))"),
    Mutant("log-cosh-near", "polya_gamma", "anp.log1p(2 * anp.sinh(x / 4) ** 2)", "anp.log1p(anp.sinh(x / 4) ** 2)"),
    Mutant("pg-kl-without-mean", "polya_gamma", "log_cosh_half(y) - y / 4 * (1 - e) / (1 + e)", "log_cosh_half(y)"),
    Mutant("pg-kl-series", "polya_gamma", "(m - 1) / (2 * m * (2 * m - 1))", "(m - 1) / (2 * m * (2 * m + 1))"),
    Mutant("tilt-mean", "polya_gamma", "h *= 4.0", "h *= 2.0"),
    Mutant("tilt-log-cosh-sign", "polya_gamma", "np.subtract(h, log_cosh, out=log_cosh)", "np.subtract(log_cosh, h, out=log_cosh)"),
    # simulate
    Mutant("pad-first", "expfam", "np.concatenate([X, np.ones(X.shape[:-1] + (1,))], axis=-1)", "np.concatenate([np.ones(X.shape[:-1] + (1,)), X], axis=-1)", STICK),
    Mutant("tau-scale-for-rate", "simulate", "rng.gamma(priors.a0, 1 / priors.b0,", "rng.gamma(priors.a0, priors.b0,", STICK),
    Mutant("v0-as-precision", "simulate", "np.sqrt(priors.v0 / tau)", "np.sqrt(1 / (priors.v0 * tau))", STICK),
    Mutant("sigma0-as-variance", "simulate", "priors.sigma0 * rng.normal", "priors.sigma0**0.5 * rng.normal", STICK),
    Mutant("sigma1-as-variance", "simulate", "priors.sigma1 * rng.normal", "priors.sigma1**0.5 * rng.normal", STICK),
    Mutant("sticks-from-the-end", "simulate", "(rng.random(psi.shape[:-1] + (1,)) >= cuts)", "(rng.random(psi.shape[:-1] + (1,)) < cuts)", STICK),
    Mutant("noise-precision", "simulate", "/ np.sqrt(theta.tau[z])", "/ theta.tau[z]", STICK),
    # expfam
    Mutant("second-moment-sign", "expfam", "return S + mu[..., :, None]", "return S - mu[..., :, None]"),
    Mutant("padded-corner", "expfam", "anp.concatenate([mu, anp.ones(mu.shape[:-1] + (1,))]", "anp.concatenate([mu, anp.zeros(mu.shape[:-1] + (1,))]"),
    Mutant("entropy-constant", "expfam", "0.5 * m * (1 + anp.log(2 * anp.pi))", "0.5 * m * anp.log(2 * anp.pi)"),
    Mutant("entropy-half", "expfam", "+ 0.5 * log_det(S)", "+ log_det(S)"),
    Mutant("gaussian-kl-sigma-as-variance", "expfam", "spread / sigma ** 2 - m", "spread / sigma - m"),
    Mutant("gaussian-kl-log-sigma", "expfam", "m * anp.log(sigma ** 2)", "m * anp.log(sigma)"),
    Mutant("gaussian-kl-dimension", "expfam", "spread / sigma ** 2 - m + m", "spread / sigma ** 2 + m"),
    Mutant("gamma-scale-for-rate", "expfam", "return digamma(a) - anp.log(b)", "return digamma(a) + anp.log(b)"),
    Mutant("gamma-kl-mean", "expfam", "a * (b0 - b) / b)", "a * (b0 - b) / b0)"),
    Mutant("gamma-kl-normaliser", "expfam", "- gammaln(a) + gammaln(a0)", "- gammaln(a)"),
    Mutant("mng-kl-one-row", "expfam", "rows = h * (", "rows = ("),
    Mutant("mng-kl-v0", "expfam", "axis=-1), axis=-1) / v0", "axis=-1), axis=-1)"),
    Mutant("log-det-half", "expfam", "2 * np.log(C.diagonal(0, -2, -1))", "np.log(C.diagonal(0, -2, -1))"),
    # logistic
    Mutant("beta-without-prior", "logistic", "gram + np.eye(gram.shape[-1]) / sigma**2", "gram + 1e-9 * np.eye(gram.shape[-1])"),
    Mutant("beta-sigma-as-variance", "logistic", "gram + np.eye(gram.shape[-1]) / sigma**2", "gram + np.eye(gram.shape[-1]) / sigma"),
    Mutant("beta-normaliser", "logistic", "- log_det_P) - D * math.log(sigma)", "- log_det_P)"),
    Mutant("regression-omega-everywhere", "logistic", "omega = b * pg_mean(1.0, xi)", "omega = pg_mean(1.0, xi)"),
    Mutant("tilt-forgets-spread", "logistic", "B = second_moment(mu, S)", "B = second_moment(mu, 0 * S)"),
    Mutant("bound-log-two", "logistic", "cost = anp.log(2.0) + 0.5", "cost = 0.5"),
    Mutant("bound-half", "logistic", "0.5 * pg_mean(1.0, xi) * psi2", "pg_mean(1.0, xi) * psi2"),
    Mutant("bound-without-pg-kl", "logistic", "* psi2 + pg_kl(1.0, xi)", "* psi2"),
    Mutant("regression-bound-kl-sign", "logistic", "- anp.sum(gaussian_kl(mu, S, sigma))", "+ anp.sum(gaussian_kl(mu, S, sigma))"),
    Mutant("fit-tilt-squared", "logistic", "xi = np.sqrt(regression_moments(Xt, mu, S)[1])", "xi = regression_moments(Xt, mu, S)[1]"),
    Mutant("trapezoid-centre-twice", "logistic", "(2 if i else 1) * h", "2 * h"),
    Mutant("series-half", "logistic", "np.log(total / 2)", "np.log(total)"),
    Mutant("means-without-reach", "logistic", "np.cumsum(log_pass, -1)", "log_pass"),
    Mutant("prediction-plug-in", "logistic", "stick_log_means(Xt @ fit.mu.T, variance, digits)", "stick_log_means(Xt @ fit.mu.T, 0 * variance, digits)"),
    # gate
    Mutant("gate-tilt-mean", "gate", "return anp.sqrt(gate_logits(X, beta0_mu, beta0_S)[1])", "return anp.abs(gate_logits(X, beta0_mu, beta0_S)[0])", UPDATES),
    Mutant("gate-pass-sign", "gate", "passed = stick_log_bound(*coin, 1.0, -0.5)", "passed = stick_log_bound(*coin, 1.0, 0.5)", BOUND),
    Mutant("gate-last-stick-counted", "gate", "reach + anp.concatenate([stop, none], -1)", "reach + anp.concatenate([stop, stop[:, -1:]], -1)", BOUND),
    Mutant("gate-no-reach", "gate", "anp.cumsum(passed, -1)", "passed", BOUND),
    Mutant("gate-omega-for-all", "gate", "b * pg_mean(1.0, xi0)", "pg_mean(1.0, xi0)", UPDATES),
    Mutant("gate-stale-tilt", "gate", "b * pg_mean(1.0, xi0)", "b * 0.25", UPDATES),
    Mutant("gate-wrong-prior", "gate", "priors.sigma0", "priors.sigma1", UPDATES),
    # experts
    Mutant("experts-without-prior", "experts", "gram + np.eye(M_ref.shape[-1]) / priors.v0", "gram + 1e-9 * np.eye(M_ref.shape[-1])", UPDATES),
    Mutant("experts-v0-as-precision", "experts", "gram + np.eye(M_ref.shape[-1]) / priors.v0", "gram + np.eye(M_ref.shape[-1]) * priors.v0", UPDATES),
    Mutant("experts-a-half", "experts", "a = p.a0 + n_k / 2", "a = p.a0 + n_k", UPDATES),
    Mutant("experts-b-half", "experts", "b = p.b0 + 0.5 * np.maximum(energy, 0.0)", "b = p.b0 + np.maximum(energy, 0.0)", UPDATES),
    Mutant("experts-b-scale-for-rate", "experts", "b = p.b0 + 0.5", "b = 1 / p.b0 + 0.5", UPDATES),
    Mutant("experts-reference-prior", "experts", "pull = cross - at_zero", "pull = cross", UPDATES),
    Mutant("experts-energy-sign", "experts", "- shift * pull).sum(-1)", "+ shift * pull).sum(-1)", UPDATES),
    Mutant("experts-forget-spread", "experts", "gamma, r ** 2 + spread)", "gamma, r ** 2)", UPDATES),
    Mutant("experts-one-pass", "experts", "for _ in range(2):\n        r = mu", "for _ in range(1):\n        r = mu", UPDATES),
    Mutant("evidence-constant", "experts", "log_normaliser[0] - 0.5 * h * N * np.log(2 * np.pi)", "log_normaliser[0]", VALUES),
    Mutant("evidence-prior-shape", "experts", "prior = math.lgamma(p.a0) - p.a0", "prior = -p.a0", VALUES),
    Mutant("pack-once", "packed", "np.where(i == j, 1.0, 2.0)", "np.where(i == j, 1.0, 1.0)", FIT),
    Mutant("features-off-by-one", "packed", "np.multiply(XtT[i], XtT[:i + 1]", "np.multiply(XtT[i], XtT[i:i + 1]", PACKED),
    Mutant("density-mean-log", "experts", "log_scale = gamma_mean_log(a[:, None], b) -", "log_scale = anp.log(a[:, None] / b) -", BOUND),
    Mutant("density-two-pi", "experts", "b) - anp.log(2 * anp.pi)", "b) - 0.5 * anp.log(2 * anp.pi)", BOUND),
    Mutant("density-one-row-spread", "experts", "- 0.5 * mu.shape[-1] * row_quadratic(X, V)", "- 0.5 * row_quadratic(X, V)", BOUND),
    Mutant("density-scale-for-rate", "experts", "log_scale - a[:, None] / b * square", "log_scale - a[:, None] * b * square", BOUND),
    # latents
    Mutant("scores-without-entropy", "latents", "+ gaussian_entropy(q.Sigma)", "", UPDATES),
    Mutant("logits-forget-spread", "latents", "moments, B = padded_second_moment(mu, Sigma),", "moments, B = padded_second_moment(mu, 0 * Sigma),", UPDATES),
    Mutant("normaliser-without-top", "latents", "np.squeeze(top + np.log(total), axis)", "np.squeeze(np.log(total), axis)", FIT),
    Mutant("latent-mean-without-precision", "sums", "eta += prep.tau * mean", "eta += mean", FIT),
    Mutant("latent-cross-sign", "sums", "np.subtract(pull[:, None, :], eta, out=eta)", "np.add(pull[:, None, :], eta, out=eta)", FIT),
    Mutant("latent-moment-without-spread", "sums", "block += Sigma[i, :i + 1]", "block += 0 * Sigma[i, :i + 1]", FIT),
    Mutant("estep-unreached-sticks", "polya_gamma", "1e60 * (1 - b) + 1e-300", "0 * b + 1e-300", FIT),
    Mutant("estep-entropy-half", "sums", "score = 0.5 * log_det", "score = 1.0 * log_det", FIT),
    Mutant("estep-entropy-constant", "sums", "p.b, 0.5 * h - ln2", "p.b, 0.0 * h - ln2", FIT),
    Mutant("estep-log-two", "polya_gamma", "initial=0.5**len(factors)", "initial=1.0", FIT),
    Mutant("estep-sticks-by-thousands", "polya_gamma", "range(0, len(b), 1000)", "range(0, 1000, 1000)"),
    Mutant("estep-tosses-unweighted", "polya_gamma", "np.einsum(\"jb,jkb->kb\", b, h)", "np.einsum(\"jb,jkb->kb\", np.ones_like(b), h)", FIT),
    Mutant("estep-constant-in-other-feature", "sums", "forms[:K, -1] += 0.5", "forms[:K, 0] += 0.5", FIT),
    Mutant("estep-shared-tilt-correction", "sums", "cost + 2.0 * np.einsum(\"jb,jkb->kb\", omega[:, 0], psi2)", "cost", FIT),
    Mutant("estep-one-row-spread", "sums", "-0.5 * h * p.V", "-0.5 * p.V", FIT),
    Mutant("gate-rows-kappa", "sums", "forms[:K, -D:] += kappa0 @ p.beta0_mu", "forms[:K, -D:] += 2 * kappa0 @ p.beta0_mu", FIT),
    Mutant("gate-rows-log-two", "sums", "0.5 * h - ln2", "0.5 * h + 0.0 * ln2", FIT),
    Mutant("gate-rows-reach-transposed", "sums", "_coins(len(square) + 1)[0] @ log_cosh", "_coins(len(square) + 1)[0][::-1] @ log_cosh", FIT),
    Mutant("gate-quarter", "sums", "0.25 * B0", "0.5 * B0", FIT),
    Mutant("output-quarter", "sums", "0.25 * pack_quadratic(B)", "0.5 * pack_quadratic(B)", FIT),
    Mutant("sums-reach-off-by-one", "sums", "b0.T @ gamma * gate_omega", "b0.T @ gamma[::-1] * gate_omega", FIT),
    Mutant("sums-kappa-half", "sums", "kappa0.T @ gram[:, -len(XtT):]", "2 * kappa0.T @ gram[:, -len(XtT):]", FIT),
    Mutant("tilt-unweighted", "latents", "np.einsum(\"nk,nkl->nl\", gamma, psi2)", "psi2.mean(1)", UPDATES),
    # elbo
    Mutant("elbo-gate-prior", "elbo", "gaussian_kl(p.beta0_mu, p.beta0_S, priors.sigma0)", "gaussian_kl(p.beta0_mu, p.beta0_S, priors.sigma1)", BOUND),
    Mutant("elbo-a0-for-b0", "elbo", "priors.v0, priors.a0, priors.b0)", "priors.v0, priors.b0, priors.a0)", BOUND),
    Mutant("elbo-entropy-sign", "elbo", "return -anp.sum(gamma * anp.log", "return anp.sum(gamma * anp.log", BOUND),
    Mutant("elbo-kl-sign", "elbo", "\"beta1\": -kl[\"beta1\"]", "\"beta1\": kl[\"beta1\"]", BOUND),
    Mutant("elbo-latent-entropy-half", "elbo", "mean(gaussian_entropy(q.Sigma))", "0.5 * mean(gaussian_entropy(q.Sigma))", BOUND),
    Mutant("elbo-ten-nats", "elbo", "return sum(elbo_terms(state, X, y, priors).values())", "return 10 + sum(elbo_terms(state, X, y, priors).values())", BOUND),
    # cavi
    Mutant("beta1-unweighted", "cavi", "weight = gamma[:, :, None] * b", "weight = np.ones_like(gamma)[:, :, None] * b", UPDATES),
    Mutant("beta1-wrong-prior", "cavi", "coefficients_from_sums(gram, linear, priors.sigma1)", "coefficients_from_sums(gram, linear, priors.sigma0)", UPDATES),
    Mutant("shared-tilt-ignores-gamma", "cavi", "shared = q.gamma if q.xi1.ndim == 2 else None", "shared = 0 * q.gamma + 1 / q.gamma.shape[1] if q.xi1.ndim == 2 else None", UPDATES),
    Mutant("sweep-order", "cavi", "* inner + (\"omega0\", \"z\", \"beta1\",", "* inner + (\"z\", \"omega0\", \"beta1\",", UPDATES),
    Mutant("mstep-experts-prior", "sums", "[:K, ::D + 1] += 1 / priors.v0", "[:K, ::D + 1] += 1 * priors.v0", FIT),
    Mutant("mstep-gate-prior", "sums", "[K:, ::D + 1] += 1 / priors.sigma0**2", "[K:, ::D + 1] += 1 / priors.sigma1", FIT),
    Mutant("mstep-output-prior", "sums", "::h + 2] += 1 / priors.sigma1**2", "::h + 2] += 1 / priors.sigma0", FIT),
    Mutant("joint-constants", "sums", " - dot(s.n_k, p.constants)", "", FIT),
    Mutant("mstep-stale-reference", "sums", "sums.cross, sums.squares, parameters.M, priors)", "sums.cross, sums.squares, 0 * parameters.M, priors)", FIT),
    Mutant("joint-half", "sums", "return linear - 2 * square", "return linear - square", FIT),
    Mutant("joint-gate-sign", "sums", "+ dot(s.gate_gram, p.forms[K:])", "- dot(s.gate_gram, p.forms[K:])", FIT),
    Mutant("bound-before-mstep", "sums", "bound = total.bound - expected_log_joint(total, prep) + log_normaliser", "bound = total.bound + log_normaliser", FIT),
    Mutant("code-sign", "starts", "np.eye(L) - np.triu", "np.eye(L) + np.triu", FIT),
    Mutant("clusters-smallest-first", "starts", "np.argsort(-np.bincount", "np.argsort(np.bincount", FIT),
    Mutant("soften-sum", "starts", "(1 - confidence) / n_experts", "(1 - confidence)", FIT),
    Mutant("start-tilt", "sums", "0.25 * rows.b[:, None, :]", "0.5 * rows.b[:, None, :]", FIT),
    Mutant("expand-scale", "fit", "2 * priors.b0 * (p.a[:, None] / p.b)", "priors.b0 * (p.a[:, None] / p.b)", FIT),
    Mutant("expand-shift-sign", "fit", "T[h, :h] = -c / s", "T[h, :h] = c / s", FIT),
    Mutant("expand-bound-stale", "fit", "after = expand(after, r.priors) bound -=", "after = expand(after, r.priors)\n        bound -= 1.1 *", FIT),
    Mutant("tolerance-not-per-row", "fit", "< tol * count_rows(blocks)", "< tol", FIT),
    Mutant("sweep-forgets-tilts", "sums", "sums, omega, fresh = estep(", "sums, _, fresh = estep(", FIT),
    Mutant("sweep-forgets-gamma", "sums", "None if block.gamma is None else fresh", "block.gamma", FIT),
    Mutant("sweep-last-block-sums", "sums", "sums if total is None else add_sums(total, sums)", "sums", FIT),
    Mutant("step-forgets-blocks", "fit", "parameters=after, blocks=blocks,", "parameters=after,", FIT),
    Mutant("fit-of-other-rows", "fit", "if first != len(X):", "if first > len(X):", FIT),
    # predict
    Mutant("logit-without-spread", "predict", "np.maximum(row_quadratic(X, S), 0.0)", "0 * row_quadratic(X, S)", PREDICT),
    Mutant("student-scale-for-rate", "predict", "spread[:, :, None] * p.b / p.a[:, None]", "spread[:, :, None] * p.a[:, None] / p.b", PREDICT),
    Mutant("student-without-noise", "predict", "spread = 1 + np.maximum", "spread = 1e-9 + np.maximum", PREDICT),
    Mutant("student-dof", "predict", "/ p.a[:, None]), 2 * p.a", "/ p.a[:, None]), p.a", PREDICT),
    Mutant("stretch-sign", "quadrature", "np.copysign(t[..., place.reshape(np.shape(z))], z)", "t[..., place.reshape(np.shape(z))]", QUADRATURE),
    Mutant("smoothstep-weights", "quadrature", "w * (1 - s**2)**2", "w * (1 - s**2)", QUADRATURE),
    Mutant("auto-too-coarse", "quadrature", "(1e-9, 3.0, 1025)", "(1e-2, 3.0, 1025)", QUADRATURE),
    Mutant("cubature-radius", "quadrature", "return np.sqrt(h) * z, np.full(2 * h", "return h * z, np.full(2 * h", QUADRATURE),
    Mutant("antithetic-weights", "quadrature", "np.full(2 * len(z), 0.5 / len(z))", "np.full(2 * len(z), 1 / len(z))", QUADRATURE),
    Mutant("twins-whatever-the-noise", "row_tables", "[p.a[:, None], p.b, p.M", "[p.a[:, None], 0 * p.b, p.M", ("test_row_tables.py", "test_quadrature_rules.py")),
    Mutant("mixture-without-gate", "quadrature", "experts += gate[:, :, None]", "experts -= np.log(experts.shape[1])", QUADRATURE),
    Mutant("draws-by-eigenvectors-of-any-sign", "predict", "root = scaled @ vectors.swapaxes(1, 2)", "root = scaled", PREDICT),
    Mutant("draws-row-scale", "predict", "noise(p.V, p.M.shape[1]) / np.sqrt(tau)[..., None]", "noise(p.V, p.M.shape[1])", PREDICT),
    Mutant("point-rate", "predict", "b=a[:, None] / tau", "b=a[:, None] * tau", PREDICT),
    Mutant("slices-at-their-ends", "predict", "(np.arange(m) + 0.5) / m", "(np.arange(m) + 0.25) / m", PREDICT),
    Mutant("slices-unscaled", "predict", "+ scale[:, :, None] * t", "+ t", PREDICT),
    Mutant("slices-of-one-expert", "predict", "for nu in dof]", "for nu in dof[:1] for _ in dof]", PREDICT),
    # classifier
    Mutant("scale-is-variance", "sources", "deviation = _spread(rest, weight)", "deviation = _spread(rest, weight)**2", CLASSIFIER),
    Mutant("constant-columns", "sources", "np.where(flat, 1.0, deviation)", "np.where(flat, deviation, deviation)", CLASSIFIER),
    Mutant("entropy-without-weights", "uncertainty", "return -np.sum(np.exp(log_p) * np.where", "return -np.sum(np.where", CLASSIFIER),
    Mutant("between-is-not-the-rest", "uncertainty", "Uncertainty(total, within, total - within,", "Uncertainty(total, within, total,", CLASSIFIER),
    Mutant("offset-sign", "uncertainty", "p.M[:, :, -1] - slope @ mean", "p.M[:, :, -1] + slope @ mean", CLASSIFIER),
    Mutant("noise-shape", "uncertainty", "np.where(p.a > 1, p.a - 1, np.nan)", "np.where(p.a > 1, p.a, np.nan)", CLASSIFIER),
    Mutant("starts-geometric-mean", "uncertainty", "return logsumexp(logs, axis=0) - np.log(len(logs))", "return logs.mean(axis=0)", CLASSIFIER),
    Mutant("worst-elbo", "classifier", "max(fits, key=lambda result: objective_trace(result)[-1])", "min(fits, key=lambda result: objective_trace(result)[-1])", CLASSIFIER),
    Mutant("holdout-seen-in-training", "classifier", "tasks = [(i, seed, rows)", "tasks = [(i, seed, slice(None))", CLASSIFIER),
    Mutant("holdout-largest-class-first", "datasets", "height[rows] = (rank + 0.5) / size", "height[rows] = rank"),
    Mutant("divergence-reversed", "uncertainty", "gap = np.subtract(log_q, log_p,", "gap = np.subtract(log_p, log_q,", CLASSIFIER),
    Mutant("information-of-one-start", "uncertainty", "return total / (each * len(starts))", "return total / each", CLASSIFIER),
    # datasets
    Mutant("pinwheel-deviations-swapped", "datasets", "[radial_std, tangential_std] + [1.0, 0.0]", "[tangential_std, radial_std] + [1.0, 0.0]"),
    Mutant("pinwheel-straight-arms", "datasets", "angle = 2 * np.pi * y / n_classes + rate * np.exp(r)", "angle = 2 * np.pi * y / n_classes + rate * r"),
    Mutant("pinwheel-jacobian", "datasets", "height / np.abs(1 + rate * np.exp(root) * t)", "height"),
    Mutant("waveform-blend", "datasets", "u * a + (1 - u) * b + rng", "u * a + b + rng"),
    Mutant("waveform-length", "datasets", "log_mass - np.log(length) -", "log_mass -"),
    Mutant("hash-not-checked", "datasets", "if digest != spec.sha256:", "if not digest:"),
    Mutant("test-rows-in-training", "datasets", "rest = np.setdiff1d(np.arange(len(y)), test)", "rest = np.arange(len(y))"),
    Mutant("sizes-not-doubling", "datasets", "sizes.append(2 * sizes[-1])", "sizes.append(sizes[0] + sizes[-1])"),
    # metrics
    Mutant("accuracy-of-the-least", "metrics", "(p.argmax(1) == y).mean()", "(p.argmin(1) == y).mean()"),
    Mutant("log-score-of-the-winner", "metrics", "picked = p[np.arange(len(y)), y]", "picked = p.max(1)"),
    Mutant("brier-mean-over-classes", "metrics", "[y]) ** 2).sum(1).mean()", "[y]) ** 2).mean(1).mean()"),
    Mutant("reliability-edge", "metrics", 'c, side="right") - 1', 'c, side="left") - 1'),
    Mutant("ece-unweighted", "metrics", "@ r.count[used] / r.count.sum()", "@ np.ones(used.sum()) / used.sum()"),
    Mutant("ece-signed", "metrics", "np.abs(r.accuracy - r.confidence)[used]", "(r.accuracy - r.confidence)[used]"),
    Mutant("ece-classwise-sum", "metrics", "return float(np.mean(by_class))", "return float(np.sum(by_class))"),
    Mutant("ece-chance-draws", "metrics", "rng.uniform(size=(len(p), 1)) > cut", "rng.uniform(size=(len(p), 1)) < cut"),
    # and one each for the functions that the list above does not touch
    Mutant("evidence-unpadded", "experts", "regression_log_evidence(pad(X)", "regression_log_evidence(X", VALUES),
    Mutant("gram-last-block", "packed", "for s in range(0, len(X), block_rows)", "for s in range(0, len(X) - len(X) % block_rows, block_rows)", PACKED),
    Mutant("unpack-transposed-place", "packed", "packed.take(lower_triangle(m)[3], -1)", "packed.take(np.tril(lower_triangle(m)[3]), -1)", PACKED),
    Mutant("row-quadratic-half", "experts", "return anp.sum(anp.tensordot(Xt, S,", "return 0.5 * anp.sum(anp.tensordot(Xt, S,", BOUND),
    Mutant("trace-of-everything", "expfam", "anp.sum(S * np.eye(S.shape[-1])", "anp.sum(S * np.ones(S.shape[-2:])", STICK),
    Mutant("log-det-of-inverse", "expfam", "return anp.linalg.slogdet(S)[1]", "return -anp.linalg.slogdet(S)[1]", STICK),
    Mutant("inverse-two-sign", "packed", "np.multiply(P[1, 0], -r,", "np.multiply(P[1, 0], r,", PACKED),
    Mutant("inverse-stacked-sign", "packed", "np.subtract(corner, minus_r[i],", "np.subtract(corner, -minus_r[i],", PACKED),
    Mutant("log-product-sign", "packed", "initial=(-1.0)**len(minus_r)", "initial=2 * (-1.0)**len(minus_r)", PACKED),
    Mutant("series-weights-sign", "logistic", "w = (k == 0) - p / scale - w", "w = (k == 0) - p / scale + w", VALUES),
    Mutant("sigmoid-mean-sides", "logistic", "np.where(m < 0, low, high)", "np.where(m > 0, low, high)", VALUES),
    Mutant("gate-logits-forget-spread", "gate", "regression_moments(pad(X), beta0_mu, beta0_S)", "regression_moments(pad(X), beta0_mu, 0 * beta0_S)", UPDATES),
    Mutant("output-bound-other-label", "latents", "stick_counts(np.eye(beta1_mu.shape[0] + 1))", "stick_counts(np.eye(beta1_mu.shape[0] + 1)[::-1])", BOUND),
    Mutant("rows-other-label", "sums", "stick_counts(np.eye(n_classes))", "stick_counts(np.eye(n_classes)[::-1])", FIT),
    Mutant("sums-not-added", "sums", "return Sums(*(a + b for", "return Sums(*(a + 0 * b for", FIT),
    Mutant("inner-ignored", "sums", "for _ in range(inner):", "for _ in range(1):", FIT),
    Mutant("latent-update-all-sticks", "latents", "pg_mean(1.0, xi1)) * b[:, None, :]", "pg_mean(1.0, xi1))", UPDATES),
    Mutant("latent-update-mean", "latents", "eta = (tau * guess", "eta = (guess", UPDATES),
    Mutant("latent-update-cross-sign", "latents", "- omega @ B[:, :h, h])", "+ omega @ B[:, :h, h])", UPDATES),
    Mutant("gram-unweighted", "experts", "(w * Xt.T) @ Xt for w", "Xt.T @ Xt for w", UPDATES),
    Mutant("prior-start-v0", "cavi", "np.zeros((K, h, D)), eye(K, D, priors.v0)", "np.zeros((K, h, D)), eye(K, D, 1 / priors.v0)", FIT),
    Mutant("random-start-narrow", "cavi", "+ variance * np.eye(size)", "+ 0 * np.eye(size)", FIT),
    Mutant("code-experts-squares", "starts", "np.einsum(\"nk,nki->ki\", gamma, r**2)", "np.einsum(\"nk,nki->ki\", gamma, r)", FIT),
    Mutant("code-gate-prior", "starts", "coefficients_from_sums(gram, linear, priors.sigma0)", "coefficients_from_sums(gram, linear, priors.sigma1)", FIT),
    Mutant("local-factors-stop-early", "cavi", "return _z(state, X, y, None) if rounds else state", "return state", FIT),
    Mutant("gate-probs-plug-in", "predict", "return stick_log_means(*logit_moments(X, p.beta0_mu, p.beta0_S))", "return stick_log_means(*logit_moments(X, p.beta0_mu, 0 * p.beta0_S))", PREDICT),
    Mutant("output-probs-plug-in", "predict", "*logit_moments(rows, parameters.beta1_mu, parameters.beta1_S)", "*logit_moments(rows, parameters.beta1_mu, 0 * parameters.beta1_S)", PREDICT),
    Mutant("hermite-weights", "quadrature", "z, w = np.polynomial.hermite_e.hermegauss(m)", "z, w = np.polynomial.hermite_e.hermegauss(m)[0], np.ones(m)", QUADRATURE),
    Mutant("grid-weights", "quadrature", "return z, w.prod(-1)", "return z, w.mean(-1)", QUADRATURE),
    Mutant("sobol-off-centre", "quadrature", "random_base2(power) + 0.5**(power + 1)", "random_base2(power) + 0.99 * 0.5**power", QUADRATURE),
    Mutant("latents-unscaled", "quadrature", "x1 *= scale.T.take(owner, axis=1)", "x1 *= 1.0", QUADRATURE),
    Mutant("log-density-sum", "metrics", "return float(scores.mean())", "return float(scores.sum())"),
    Mutant("quota-rank", "datasets", "np.concatenate([np.arange(s) for s in size])", "np.concatenate([np.zeros(s) for s in size])"),
    Mutant("labels-above-range", "checks", "values.max() >= top", "values.max() > top", CHECKS),
    Mutant("parameters-not-positive", "checks", "not (value > 0).all()", "not (value == value).all()", CHECKS),
    Mutant("state-of-other-rows", "checks", "got = np.shape(arrays[name])\n        if got != expected:", "got = np.shape(arrays[name])\n        if len(got) != len(expected):", CHECKS),
    Mutant("normal-negative-variance", "checks", "(v >= 0) & np.isfinite(v)", "np.isfinite(v)", CHECKS),
    Mutant("inputs-not-finite", "checks", "if not np.isfinite(values).all():", "if np.isnan(values).all():", CHECKS),
]
# the other roads: one file of (id, old, new, tests) per module
MUTANTS += [Mutant(name, path.stem, old, new, tuple(tests)) for path in sorted((ROOT / "tests" / "planted").glob("*.py"))
            for name, old, new, tests in runpy.run_path(path)["FAULTS"]]

# A fixed sample, one a module, from chapters that run in seconds.
SAMPLE = ("counts-off-by-one-stick", "pg-mean-half", "gaussian-kl-log-sigma", "bound-half", "experts-without-prior", "gate-omega-for-all",
          "scores-without-entropy", "elbo-latent-entropy-half", "beta1-unweighted", "student-dof")


def main(argv=None):
    parser = argparse.ArgumentParser(description="plant faults in the package and see that somebody notices")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="mutants whose id or module contains one of these words")
    parser.add_argument("--list", action="store_true", help="show the faults, run nothing")
    parser.add_argument("--no-control", action="store_true")
    args = parser.parse_args(argv)
    mutants = [m for m in MUTANTS if not args.only or any(w in m.id or w in m.module for w in args.only)]
    if args.list:
        for m in mutants:
            print(f"{m.id}  ({m.module})\n  - {m.old.strip()}\n  + {m.new.strip()}")
        return 0
    failures = []
    if not args.no_control:
        for what, seconds, failure in control(mutants, chapters(), args.jobs):
            print(f"control {what:40s} {seconds:5.1f} s  {'FAILS: ' + failure if failure else 'passes'}", flush=True)
            failures += [what] if failure else []
    outcomes = try_all(mutants, args.jobs, lambda o: print(line(o), flush=True))
    print(summary(outcomes))
    return 1 if failures or any(o.problem or not o.killed_by for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
