"""Cases of networks of several layers: the optional suite of deeper networks.  Levels 1 to 6."""

import states as p
from deep_catalogue import VALUES
from special_cases import case


def network(seed, N, widths, experts, L, priors=p.OTHER):
    """A whole state, none of it consistent with the rest.  widths: of the rows, then of each layer's latent vector."""
    rng, S = p.random.Random(f"cmn-deep-{seed}"), len(experts)
    chosen, y = [1, *experts, L], [n % L for n in range(N)]
    rng.shuffle(y)
    means = lambda *shape: p.fill(shape, lambda: p.grid(rng, -1.5, 1.5, 16))
    tilts = lambda *shape: p.fill(shape, lambda: p.grid(rng, 0.25, 3, 16))
    s = {"X": p.fill((N, widths[0]), lambda: p.grid(rng, -2, 2, 32)), "y": y}
    for l in range(S + 1):
        D, J = widths[l] + 1, chosen[l + 1] - 1
        if l:
            K, h, below = experts[l - 1], widths[l], widths[l - 1] + 1
            s |= {f"M{l}": means(K, h, below), f"V{l}": [p.covariance(rng, below, 0.25) for _ in range(K)], f"a{l}": [p.grid(rng, 1.5, 6, 4) for _ in range(K)],
                  f"b{l}": p.fill((K, h), lambda: p.grid(rng, 0.5, 4, 8)), f"gamma{l}": [p.shares(rng, K) for _ in range(N)],
                  f"mu{l}": p.fill((N, K, h), lambda: p.grid(rng, -2, 2, 16)), f"Sigma{l}": [[p.covariance(rng, h, 0.25) for _ in range(K)] for _ in range(N)]}
        s |= {f"beta{l}_mu": means(J, D), f"beta{l}_S": [p.covariance(rng, D, 0.25) for _ in range(J)], f"xi{l}": tilts(N, chosen[l], J)}
    return {**s, **priors}


def of_plain(s):
    """A state of the plain model as a network of one layer."""
    new = {"xi0": [[row] for row in s["xi0"]]} | {f"{name}1": s[name] for name in ("M", "V", "a", "b", "gamma", "mu", "Sigma")}
    return {name: value for name, value in s.items() if f"{name}1" not in new} | new


def depth(s):
    return max(l for l in (1, 2, 3) if f"M{l}" in s)


def asked(op, id, note, flags, s, /, how=None, inner=None, **more):
    """A case about a network; more: s, n_sweeps."""
    rounds = {} if inner is None else {"inner": inner}
    return case(f"deep_{op}", id, note, flags, profile={**rounds, "layers": VALUES[depth(s) - 1]}, options=tuple(rounds), how=how, **s, **more)



def change(s, **new):
    return {**s, **new}


def rowless(s):
    return {name: [] if name in ("X", "y") or name[:-1] in ("gamma", "mu", "Sigma", "xi") else value for name, value in s.items()}


def tilted(s, value):
    return {name: p.constant(v, value) if name.startswith("xi") else v for name, v in s.items()}


def steep(s, slope=512):
    """Logits of +-1000 in every layer, or of two slopes."""
    return tilted({name: p.negated_rows(v, slope) if name.startswith("beta") and name.endswith("_mu") else v for name, v in s.items()}, 2 * slope)


def certain(s, *hidden):
    """Known experts of these layers, in turn."""
    return change(s, **{f"gamma{l}": [p.one_hot((n + l) % len(row), len(row)) for n, row in enumerate(s[f"gamma{l}"])] for l in hidden})


def first_only(s, l):
    """An expert of a layer without rows: the last."""
    return change(s, **{f"gamma{l}": [[*row[:-2], row[-2] + row[-1], 0] for row in s[f"gamma{l}"]]})


def sharp(s, l):
    """Experts of a layer far apart, and sharp."""
    return change(s, **{f"mu{l}": [[[v + 8 * k for v in mu] for k, mu in enumerate(rows)] for rows in s[f"mu{l}"]], f"Sigma{l}": p.scalar_matrices(s[f"Sigma{l}"], 1 / 64)})


def far(s, l):
    """Latents of a layer around 1024, nearly the same."""
    return change(s, **{f"mu{l}": [[[1024 + v / 8 for v in mu] for mu in rows] for rows in s[f"mu{l}"]], f"Sigma{l}": p.scalar_matrices(s[f"Sigma{l}"], 1 / 64)})


def first_row(s):
    return {name: value[:1] if name in ("X", "y") or name[:-1] in ("gamma", "mu", "Sigma", "xi") else value for name, value in s.items()}


def prior(s):
    """Every factor at its prior; no rows."""
    S, out = depth(s), rowless(s)
    unit = lambda D, v: [[v if i == j else 0 for j in range(D)] for i in range(D)]
    for l in range(S + 1):
        variance = s["sigma1" if l == S else "sigma0"] ** 2
        out |= {f"beta{l}_mu": p.constant(s[f"beta{l}_mu"], 0), f"beta{l}_S": [unit(len(C), variance) for C in s[f"beta{l}_S"]]}
    for l in range(1, S + 1):
        out |= {f"M{l}": p.constant(s[f"M{l}"], 0), f"V{l}": [unit(len(C), s["v0"]) for C in s[f"V{l}"]], f"a{l}": p.constant(s[f"a{l}"], s["a0"]), f"b{l}": p.constant(s[f"b{l}"], s["b0"])}
    return out


TWO = network("two", 3, (2, 3, 2), (3, 2), 3)
SMALL = network("small", 4, (1, 2, 1), (2, 2), 2)
TINY = network("tiny", 4, (1, 1, 1), (2, 2), 2, priors=p.PAPER)
THREE = network("three", 3, (1, 2, 1, 2), (2, 1, 3), 2)      # one expert in the middle layer
TRIPLE = network("triple", 3, (2, 1, 2, 1), (2, 3, 2), 3)
CANARY = network("canary", 4, (3, 3, 2), (6, 3), 3)          # no array has two axes of one size, but covariances and what L makes
GENERAL, BINARY = of_plain(p.GENERAL), of_plain(p.BINARY)
LEVEL = network("steep", 3, (1, 2, 1), (2, 3), 3)
STEEP = steep(LEVEL)


def moments():
    """Level 1."""
    def c(id, note, flags, s, l):
        return case("deep_moments", id, note, flags, profile={"layers": "two"}, **{name: s[f"{name}{l}"] for name in ("gamma", "mu", "Sigma")})
    yield c("general", "Three experts: the mean of the covariances, and the distances of the means.", "MixtureSpread InputMean Unweighted", TWO, 1)
    yield c("one_expert", "One expert: its own Gaussian.", "SingleExpert InputMean", THREE, 2)
    yield c("sharp", "Sharp experts far apart are a wide mixture.", "MixtureSpread", sharp(SMALL, 1), 1)
    yield c("certain", "One expert known: no distances.", "OneHot MixtureSpread", certain(TWO, 1), 1)
    yield c("far", "Means around 1024: no difference of large squares.", "LargeOffset", far(SMALL, 1), 1)


def updates():
    """Level 2."""
    c = lambda *a, **k: asked("x", *a, **k)
    yield c("middle", "Sticks and experts of the layer above, and the own experts below.", "LayerAbove PullSpread SoftCounts CrossTerm", TWO, s=1)
    yield c("top", "The output above: one-hot choices, and no experts.", "LayerBelow CrossTerm OffByOneStick", TWO, s=2)
    yield c("one_layer", "The numbers of update_x.", "CrossTerm RateScale", GENERAL, s=1)
    yield c("all_sizes_different", "N, d, h1, h2, K1, K2 = 4, 3, 3, 2, 6, 3.", "ColumnMajor LayerAbove SoftCounts", CANARY, s=1)
    yield c("all_sizes_different_top", "Six experts below.", "ColumnMajor LayerBelow", CANARY, s=2)
    yield c("below_one_expert", "Above stands a layer of one expert: no sticks, one pull.", "SingleExpert PullSpread LayerAbove", THREE, s=1)
    yield c("one_expert", "One expert between two layers.", "SingleExpert LayerAbove SoftCounts", THREE, s=2)
    yield c("third", "The top of three layers.", "LayerBelow", TRIPLE, s=3)
    yield c("known_above", "The expert above is known: its pull alone.", "OneHot LayerAbove", certain(TWO, 2), s=1)
    yield c("empty_above", "An expert above without rows pulls nothing.", "EmptyExpert LayerAbove", first_only(TWO, 2), s=1)
    yield c("zero_tilts", "Tilts 0.", "ZeroTilt", tilted(SMALL, 0), s=1)
    yield c("steep", "Logits of +-1000: finite.", "HugeTilt LayerAbove", STEEP, s=1, how={"safety": 128})
    yield c("no_rows", "No row, no Gaussian.", "EmptyExpert", rowless(TWO), s=1)

    c = lambda *a, **k: asked("z", *a, **k)
    yield c("middle", "Two links and an entropy.", "LayerAbove MissingEntropy InputMean PullSpread", TWO, s=1)
    yield c("top", "The link below is averaged over its experts.", "LayerBelow MissingEntropy InputMean", TWO, s=2)
    yield c("one_layer", "The numbers of update_z.", "MissingEntropy StaleTilt", GENERAL, s=1)
    yield c("one_expert", "One expert: 1, whatever is said.", "SingleExpert", THREE, s=2)
    yield c("second", "The middle of three layers.", "LayerAbove LayerBelow InputMean", TRIPLE, s=2)
    yield c("known_neighbours", "Known experts above: one entry of the link.", "OneHot LayerAbove", certain(TWO, 2), s=1)
    yield c("steep", "Scores of thousands: finite.", "Underflow HugeTilt", STEEP, s=1)
    yield c("all_sizes_different", "N, d, h1, h2, K1, K2 = 4, 3, 3, 2, 6, 3.", "ColumnMajor LayerBelow", CANARY, s=2)

    c = lambda *a, **k: asked("tilt", *a, **k)
    yield c("input", "Exact inputs: the tilts of the gate.", "SecondMoment HalfAngle", TWO, s=0)
    yield c("middle", "A tilt of each expert below; its covariance counts.", "InputMean SharedTilt SecondMoment", TWO, s=1)
    yield c("output", "The tilts of the output.", "InputMean SharedTilt", TRIPLE, s=3)
    yield c("no_sticks", "One expert above: no stick, an axis of length 0.", "SingleExpert", THREE, s=1)

    c = lambda *a, **k: asked("beta", *a, **k)
    yield c("input", "The first gate: exact inputs, soft counts, sigma0.", "SoftCounts LayerPrior PriorMissing", TWO, s=0)
    yield c("middle", "A gate whose input is a mixture.", "InputMean SoftCounts LayerPrior SharedTilt", TWO, s=1)
    yield c("output", "The output: sigma1 and one-hot counts.", "InputMean LayerPrior OffByOneStick", TWO, s=2)
    yield c("one_layer", "The numbers of update_beta1.", "InputMean PriorMissing StaleTilt", GENERAL, s=1)
    yield c("one_layer_gate", "The numbers of update_beta0.", "SoftCounts PriorMissing", GENERAL, s=0)
    yield c("second", "The second gate of three layers reads a mixture of two.", "InputMean LayerPrior SoftCounts", TRIPLE, s=1)
    yield c("no_sticks", "One expert above: no coefficients.", "SingleExpert", THREE, s=1)
    yield c("empty_above", "An expert above without rows: the stick before it always ends the walk.", "EmptyExpert SoftCounts", first_only(TRIPLE, 2), s=1)
    yield c("no_rows", "No row: the prior of a gate in the middle.", "LayerPrior EmptyExpert", rowless(TWO), s=1)

    c = lambda *a, **k: asked("experts", *a, **k)
    yield c("first", "Exact inputs.", "NoiseForgotten Unweighted", TWO, s=1)
    yield c("second", "The input is a mixture: its spread shrinks M and counts as noise.", "InputMean MixtureSpread LayerBelow", TWO, s=2)
    yield c("third", "The top of three layers.", "InputMean MixtureSpread", TRIPLE, s=3)
    yield c("one_layer", "The numbers of update_experts.", "PriorMissing NoiseForgotten", GENERAL, s=1)
    yield c("above_one_expert", "Below is one Gaussian: no distances.", "InputMean SingleExpert", THREE, s=3)
    yield c("sharp_below", "Below are sharp experts far apart.", "MixtureSpread LayerBelow", sharp(SMALL, 1), s=2)
    yield c("empty", "An expert without rows returns to its prior.", "EmptyExpert PriorMissing", first_only(TWO, 2), s=2)
    yield c("no_rows", "No row: the prior.", "EmptyExpert", rowless(TWO), s=2)
    yield c("all_sizes_different", "N, d, h1, h2, K1, K2 = 4, 3, 3, 2, 6, 3.", "ColumnMajor MixtureSpread", CANARY, s=2)


def bound():
    """Level 3."""
    c = lambda *a, **k: asked("elbo_choice", *a, **k)
    yield c("input", "The first gate, averaged over what it chose.", "LayerAbove Unweighted", TWO, s=0)
    yield c("middle", "A gate in the middle, averaged over both of its ends.", "InputMean LayerAbove LayerBelow Unweighted StaleTilt", TWO, s=1)
    yield c("output", "The labels.", "InputMean OffByOneStick LayerBelow", TWO, s=2)
    yield c("one_layer", "The number of elbo_output.", "StaleTilt", GENERAL, s=1)
    c = lambda *a, **k: asked("elbo_expert", *a, **k)
    yield c("first", "Exact inputs: the number of the plain term at these arrays.", "DroppedConstant LayerAbove", TWO, s=1)
    yield c("second", "The density at the mean input less a charge for its spread.", "InputMean PullSpread LayerBelow DroppedConstant", TWO, s=2)
    yield c("third", "Behind a layer of one expert.", "InputMean PullSpread SingleExpert", THREE, s=3)
    c = lambda *a, **k: asked("elbo_entropy", *a, **k)
    yield c("first", "Of the experts and of their choice.", "MissingEntropy DroppedConstant Unweighted", TWO, s=1)
    yield c("known", "Known experts: 0 ln 0 = 0.", "OneHot MissingEntropy", certain(TWO, 2), s=2)
    c = lambda *a, **k: asked("kl", *a, **k)
    yield c("two", "Three sets of sticks and two of experts.", "LayerPrior DroppedConstant", TWO)
    yield c("three", "A layer of one expert has no gate.", "LayerPrior SingleExpert RateScale", THREE)
    yield c("one_layer", "The sum of kl_beta0, kl_beta1 and kl_experts.", "LayerPrior", GENERAL)
    c = lambda *a, **k: asked("elbo", *a, **k)
    yield c("two", "Two layers, none of the factors at its best.", "InputMean DroppedConstant LayerPrior PullSpread StaleTilt", TWO)
    yield c("three", "Three layers, one of them with one expert.", "InputMean LayerPrior SingleExpert PullSpread", THREE)
    yield c("triple", "Three layers.", "LayerAbove LayerBelow MissingEntropy", TRIPLE)
    yield c("one_layer", "The number of elbo.", "StaleTilt DroppedConstant", GENERAL)
    yield c("known", "Known experts in both layers.", "OneHot InputMean", certain(TWO, 1, 2))
    yield c("no_rows", "No row: minus the divergence.", "LayerPrior", rowless(TWO))
    yield c("steep", "Logits of +-1000: finite.", "ExtremeLogit HugeTilt", STEEP)
    yield c("all_sizes_different", "N, d, h1, h2, K1, K2 = 4, 3, 3, 2, 6, 3.", "ColumnMajor LayerBelow", CANARY)


def trajectories():
    """Level 4."""
    c = lambda id, note, flags, s, n, inner=1: asked("sweeps", id, note, flags, s, inner=inner, n_sweeps=n)
    yield c("two_1", "One sweep, up the layers.", "UpdateOrder InputMean MixtureSpread LayerAbove PullSpread", TWO, 1)
    yield c("small_2", "Two sweeps.", "UpdateOrder InputMean LayerPrior", SMALL, 2)
    yield c("small_inner_2", "Two passes up the layers in a sweep.", "UpdateOrder LayerBelow", SMALL, 1, 2)
    yield c("three_1", "Three layers, one of them with one expert.", "UpdateOrder LayerAbove SingleExpert", THREE, 1)
    yield c("one_layer_2", "The numbers of sweeps: the plain model.", "UpdateOrder", BINARY, 2)
    yield c("known_1", "From known experts.", "OneHot UpdateOrder LayerBelow", certain(SMALL, 1, 2), 1)
    yield c("one_row", "One row.", "UpdateOrder LayerPrior", first_row(SMALL), 1)
    yield c("steep_1", "From logits of +-100: finite.", "ExtremeLogit", steep(LEVEL, 64), 1)


def fixed_points():
    """Level 5."""
    c = lambda id, note, flags, s: asked("stationarity", id, note, flags, s, inner=1)
    yield c("two", "Far from a fixed point.", "UpdateOrder InputMean", TWO)
    yield c("three", "Three layers.", "UpdateOrder LayerAbove", THREE)
    yield c("one_layer", "The plain model.", "UpdateOrder", BINARY)
    yield c("prior", "Without rows the prior is the fixed point: 0.", "EmptyExpert", prior(TWO))
    yield asked("converge", "tiny", "Two layers, one latent each: a bound, and a state that stands still.", "InputMean LayerPrior UpdateOrder", TINY)
    yield asked("converge", "one_layer", "The bound of converge.", "UpdateOrder", BINARY)


def forecasts():
    """Level 6."""
    def c(id, note, flags, s, X):
        read = {name: value for name, value in s.items() if name.startswith("beta") or name[:-1] in ("M", "V", "a", "b") and name[-1] in "123"}
        return asked("forecast", id, note, flags, {"X": X, **read})
    yield c("two", "Two layers.", "InputMean NoiseForgotten PlugIn ReversedOrder", TWO, [[0.5, -1.25], [2, 0.75]])
    yield c("three", "A layer of one expert in the middle: no sticks.", "SingleExpert NoiseForgotten InputMean", THREE, [[0.5], [-1.25]])
    yield c("triple", "Three layers.", "MixtureSpread InputMean LayerBelow", TRIPLE, [[0.75, -0.5]])
    yield c("one_layer", "The gate is exact, the output by moments.", "PlugIn NoiseForgotten", GENERAL, [[0.5, -1]])
    yield c("far_away", "An input at 16.", "PlugIn NoiseForgotten RateScale", SMALL, [[16], [-16]])
    yield c("all_sizes_different", "Widths 3, 3, 2 and experts 6, 3.", "ColumnMajor MixtureSpread ReversedOrder", CANARY, [[0.5, -1, 0.25]])
