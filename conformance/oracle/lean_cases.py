"""Cases of leaner posteriors: the optional suite of latent_posterior and coefficients.  Levels 2 to 6."""

import states as p
from choice_cases import asked

X, FRAME, SHARE, ROW, THIN, BOUND = ({"eq": f"eq-lean-{name}"} for name in ("best", "frame", "shared", "row", "coefficients", "bound"))
HOW = {"diagonal": X, "low-rank": FRAME, "shared": SHARE, "class-shared": SHARE, "mean-field": ROW, "mean-field-diagonal": ROW, "mean-field-shared": ROW}
MEAN_FIELD = ("mean-field", "mean-field-diagonal", "mean-field-shared")


def framed(s, seed, rank):
    """The same state with a frame of each expert: no two columns alike, none at right angles."""
    rng, K, h = p.random.Random(f"cmn-frame-{seed}"), len(s["M"]), len(s["M"][0])
    frame = [[[p.grid(rng, 0.75, 1.5, 8) if i == j else p.grid(rng, -0.5, 0.5, 8) for j in range(h)] for i in range(h)] for _ in range(K)]
    return {**s, "frame": frame, "rank": rank}


def straight(s, rank):
    """The same with the axes as frames."""
    K, h = len(s["M"]), len(s["M"][0])
    return {**s, "frame": [[[int(i == j) for j in range(h)] for i in range(h)]] * K, "rank": rank}


def inside(s, family):
    """The same with q(x1 | z) in the family."""
    mu, Sigma = s["mu"], s["Sigma"]
    if family in MEAN_FIELD:
        mu, Sigma = [[rows[0]] * len(rows) for rows in mu], [[rows[0]] * len(rows) for rows in Sigma]
    if "diagonal" in family:
        Sigma = [[[[v * (i == j) for j, v in enumerate(row)] for i, row in enumerate(S)] for S in rows] for rows in Sigma]
    if family.endswith("shared"):
        first = [s["y"].index(c) if family != "shared" else 0 for c in s["y"]]
        Sigma = [Sigma[n] for n in first]
    return p.change(s, mu=mu, Sigma=Sigma)


def thin(s, *fields):
    """The same with diagonal covariances of the coefficients."""
    return p.change(s, **{name: [[[v * (i == j) for j, v in enumerate(row)] for i, row in enumerate(S)] for S in s[name]] for name in fields})


def rowless(s):
    return p.change(s, **dict.fromkeys(("X", "y", "gamma", "mu", "Sigma", "xi1", "xi0"), []))


def first_row(s):
    return p.change(s, **{name: s[name][:1] for name in ("X", "y", "gamma", "mu", "Sigma", "xi1", "xi0")})


def one_tilt(s):
    """The same with the tilts of the first expert for all."""
    return p.change(s, xi1=[rows[0] for rows in s["xi1"]])


BINARY, SMALL, SHARED, SINGLE = p.BINARY, p.SMALL, p.SHARED, p.SINGLE
FLAT = p.state("lean-flat", N=4, K=2, h=2, L=3, d=1)
PAIR, TRIO = p.state("lean-pair", N=4, K=2, h=2, L=2, d=1, priors=p.PAPER), p.state("lean-trio", N=6, K=2, h=2, L=3, d=1)
PAIR_ROW, TRIO_ROW = p.state("lean-pair-row", N=4, K=2, h=2, L=2, d=1, priors=p.PAPER, shared=True), p.state("lean-trio-row", N=6, K=2, h=2, L=3, d=1, shared=True)
BINARY_ROW, SINGLE_ROW = one_tilt(BINARY), one_tilt(SINGLE)
ONE_HOT_ROW = p.change(SHARED, gamma=[p.one_hot(k, 3) for k in (0, 2, 1, 2, 0, 1)])
EXTREME = p.change(FLAT, beta1_mu=p.negated_rows(FLAT["beta1_mu"], 512), beta0_mu=p.negated_rows(FLAT["beta0_mu"], 512),
                   xi1=p.constant(FLAT["xi1"], 1024), xi0=p.constant(FLAT["xi0"], 1024))
EXTREME_ROW = one_tilt(EXTREME)
EMPTY = p.change(TRIO, gamma=[[1, 0]] * 6)
ALL = ("V", "beta0_S", "beta1_S")


def updates():
    """Level 2."""
    def c(id, note, flags, s, family, **how):
        return asked("update_x", f"lean_{id}", note, flags, s, {**HOW[family], **how}, latent_posterior=family)
    yield c("diagonal", "The precision's diagonal, inverted; the means are those of full covariances.", "InvertedFirst LeanMeans FamilyIgnored", p.GENERAL, "diagonal")
    yield c("diagonal_wide", "h = 4 > L - 1.", "LatentDimension InvertedFirst LeanMeans", p.WIDE, "diagonal")
    yield c("diagonal_all_sizes_different", "N, K, h = 8, 6, 3.", "ColumnMajor InvertedFirst", p.CANARY, "diagonal")
    yield c("diagonal_one_dimension", "h = 1: the numbers of the full posterior.", "RateScale", BINARY, "diagonal")
    yield c("diagonal_zero_tilts", "Tilts 0.", "ZeroTilt InvertedFirst", p.change(FLAT, xi1=p.constant(FLAT["xi1"], 0)), "diagonal")
    yield c("diagonal_extreme", "Logits of +-1000: finite.", "HugeTilt InvertedFirst LeanMeans", EXTREME, "diagonal", safety=128)
    yield c("diagonal_no_rows", "No row, no Gaussian.", "EmptyExpert", rowless(FLAT), "diagonal")
    yield c("low_rank_0", "A diagonal along a frame that is not orthogonal.", "FrameSide LeanMeans FamilyIgnored", framed(FLAT, "flat", 0), "low-rank")
    yield c("low_rank_1", "A block of one direction is a number: rank 1 is rank 0.", "FrameSide InvertedFirst LeanMeans", framed(p.GENERAL, "general", 1), "low-rank")
    yield c("low_rank_2", "A block of two of three directions.", "FrameSide InvertedFirst FamilyIgnored", framed(p.GENERAL, "general", 2), "low-rank")
    yield c("low_rank_whole", "A block of all directions: the numbers of the full posterior, whatever the frame.", "FrameSide", framed(FLAT, "flat", 2), "low-rank")
    yield c("low_rank_axes", "The axes as frame and no block: the numbers of the diagonal.", "InvertedFirst LeanMeans", straight(p.GENERAL, 0), "low-rank")
    yield c("shared", "The inverse of the mean precision of an expert's rows, weighted by gamma.", "GroupWeights InvertedFirst LeanMeans FamilyIgnored", SMALL, "shared")
    yield c("shared_one_dimension", "h = 1: a harmonic mean.", "GroupWeights InvertedFirst LeanMeans", BINARY, "shared")
    yield c("shared_one_expert", "K = 1: every weight is 1.", "SingleExpert InvertedFirst LeanMeans", SINGLE, "shared")
    yield c("shared_one_row", "One row shares with nobody: the numbers of the full posterior.", "GroupWeights", first_row(FLAT), "shared")
    yield c("shared_no_rows", "No row, no 0/0.", "EmptyExpert", rowless(FLAT), "shared")
    yield c("shared_extreme", "Logits of +-1000 of rows whose evidence differs: finite.", "HugeTilt GroupWeights InvertedFirst", EXTREME, "shared", safety=128)
    yield c("class_shared", "An expert's rows of each class.", "GroupWeights InvertedFirst LeanMeans FamilyIgnored", TRIO, "class-shared")
    yield c("class_shared_one_class", "All rows of the last class: shared by all of them.", "GroupWeights InvertedFirst", p.change(TRIO, y=[2] * 6), "class-shared")
    yield c("class_shared_each_its_own", "No two rows of a class: the numbers of the full posterior.", "GroupWeights", p.change(first_row(FLAT), **{
        name: FLAT[name][:3] for name in ("X", "gamma", "mu", "Sigma", "xi1", "xi0")}, y=[2, 0, 1]), "class-shared")
    yield c("mean_field", "Precisions and linear terms of the experts are averaged by gamma; every expert has the result.", "RowGaussian FamilyIgnored", SHARED, "mean-field")
    yield c("mean_field_certain", "z known: the Gaussian of that expert.", "OneHot RowGaussian", ONE_HOT_ROW, "mean-field")
    yield c("mean_field_one_expert", "K = 1: the numbers of the full posterior.", "SingleExpert", SINGLE_ROW, "mean-field")
    yield c("mean_field_one_dimension", "h = 1.", "RowGaussian RateScale", BINARY_ROW, "mean-field")
    yield c("mean_field_extreme", "Logits of +-1000: finite.", "HugeTilt RowGaussian", EXTREME_ROW, "mean-field", safety=128)
    yield c("mean_field_diagonal", "One diagonal Gaussian a row.", "RowGaussian InvertedFirst LeanMeans FamilyIgnored", SHARED, "mean-field-diagonal")
    yield c("mean_field_shared", "One covariance for the rows of each class, in which every row counts 1.", "RowGaussian GroupWeights InvertedFirst FamilyIgnored", TRIO_ROW, "mean-field-shared")

    c = lambda id, note, flags, s, family: asked("update_z", f"lean_{id}", note, flags, inside(s, family), HOW[family], latent_posterior=family)
    yield c("diagonal", "ln|Sigma| is the sum over a diagonal.", "MissingEntropy LeanGap", FLAT, "diagonal")
    yield c("class_shared", "The entropies of the rows of a class are equal, those of the experts are not.", "MissingEntropy", TRIO, "class-shared")
    yield c("mean_field", "One Gaussian a row: its entropy tells nothing, the distance to each expert does.", "SecondMoment RateScale", SHARED, "mean-field")

    def c(op, id, note, flags, s, which):
        return asked(op, f"thin_{id}", note, flags, s, THIN, coefficients=which)
    yield c("update_beta1", "diagonal", "Each variance is one over the precision's entry; the means are the old ones.", "InvertedFirst LeanMeans FamilyIgnored", TRIO, "diagonal")
    yield c("update_beta1", "output", "The same, asked by its own name.", "InvertedFirst PriorMissing", BINARY, "diagonal-output")
    yield c("update_beta1", "inputs", "Of the inputs alone: q(beta_1) is the old one.", "FamilyIgnored", FLAT, "diagonal-inputs")
    yield c("update_beta1", "no_rows", "No row: the prior, which is diagonal.", "PriorMissing EmptyExpert", rowless(FLAT), "diagonal")
    yield c("update_beta0", "diagonal", "D = 3 variances of each gate stick.", "InvertedFirst LeanMeans FamilyIgnored", SMALL, "diagonal")
    yield c("update_beta0", "one_expert", "K = 1: no gate.", "SingleExpert", SINGLE, "diagonal-inputs")
    yield c("update_beta0", "output", "Of the output alone: q(beta_0) is the old one.", "FamilyIgnored", FLAT, "diagonal-output")
    yield c("update_experts", "diagonal", "V is diagonal; M, a and b do not notice.", "InvertedFirst LeanMeans FamilyIgnored", SMALL, "diagonal")
    yield c("update_experts", "empty_expert", "An expert without rows: V = v0 I.", "EmptyExpert PriorMissing", EMPTY, "diagonal-inputs")


def bound():
    """Level 3."""
    c = lambda id, note, flags, s, family: asked("elbo_latent_entropy", f"lean_{id}", note, flags, inside(s, family), HOW[family], latent_posterior=family)
    yield c("diagonal", "Half the sum of ln variances, and (h/2)(1 + ln 2 pi).", "DroppedConstant Unweighted", FLAT, "diagonal")
    yield c("mean_field", "One Gaussian a row is counted once, by gammas that add up to 1.", "RowGaussian Unweighted", SHARED, "mean-field")

    def c(id, note, flags, s, how=BOUND, **which):
        return asked("elbo", f"lean_{id}", note, flags, s, how, **which)
    for family, s, flags in (("diagonal", TRIO, "DroppedConstant LeanGap"), ("shared", TRIO, "MissingEntropy LeanGap"), ("class-shared", TRIO, "MissingEntropy"),
                             ("mean-field", TRIO_ROW, "MissingEntropy LeanGap"), ("mean-field-diagonal", TRIO_ROW, "MissingEntropy DroppedConstant")):
        yield c(family.replace("-", "_"), f"Of a state with q(x1 | z) {family}.", flags, inside(s, family), latent_posterior=family)
    yield c("coefficients", "All covariances of coefficients diagonal.", "DroppedConstant LeanGap", thin(SMALL, *ALL), coefficients="diagonal")
    yield c("no_rows", "No row: minus three divergences.", "DroppedConstant", rowless(thin(FLAT, *ALL)), coefficients="diagonal")
    yield c("extreme", "Logits of +-1000: finite.", "ExtremeLogit HugeTilt", inside(EXTREME, "shared"), latent_posterior="shared")
    yield asked("kl_experts", "thin", "Of a diagonal V.", "CovarianceAsPrecision DroppedConstant", thin(SMALL, "V"), THIN, coefficients="diagonal")


def trajectories():
    """Level 4."""
    def c(id, note, flags, s, n, how=BOUND, **which):
        return asked("sweeps", f"lean_{id}", note, flags, s, how, n, inner=1, order="canonical", **which)
    yield c("diagonal", "Diagonal covariances.", "InvertedFirst LeanMeans", FLAT, 1, latent_posterior="diagonal")
    yield c("low_rank", "A number along each direction; the frames stay.", "FrameSide LeanMeans", framed(FLAT, "flat", 1), 1, latent_posterior="low-rank")
    yield c("shared", "The covariances are made of the gamma and the tilts that come in.", "UpdateOrder GroupWeights", FLAT, 1, latent_posterior="shared")
    yield c("shared_2", "Two sweeps, h = 1.", "GroupWeights", BINARY, 2, latent_posterior="shared")
    yield c("class_shared", "Three classes.", "GroupWeights InvertedFirst", TRIO, 1, latent_posterior="class-shared")
    yield c("mean_field", "One Gaussian a row, made with the gamma that comes in.", "RowGaussian", PAIR_ROW, 1, latent_posterior="mean-field")
    yield c("mean_field_2", "Two sweeps, h = 1.", "RowGaussian", BINARY_ROW, 2, latent_posterior="mean-field")
    yield c("mean_field_diagonal", "One diagonal Gaussian a row.", "RowGaussian InvertedFirst", PAIR_ROW, 1, latent_posterior="mean-field-diagonal")
    yield c("mean_field_shared", "One covariance for the rows of each class.", "RowGaussian GroupWeights", PAIR_ROW, 1, latent_posterior="mean-field-shared")
    yield c("coefficients", "Diagonal covariances of all coefficients: the bound after the M-step is the whole one.", "InvertedFirst LeanGap", PAIR, 1, coefficients="diagonal")
    yield c("both", "Diagonal covariances everywhere.", "InvertedFirst LeanGap LeanMeans", PAIR, 2, latent_posterior="diagonal", coefficients="diagonal")
    yield c("extreme", "From logits of +-1000: finite.", "ExtremeLogit", EXTREME, 1, latent_posterior="shared")
    yield c("one_row", "One row shares with nobody.", "LeanGap", first_row(FLAT), 1, latent_posterior="class-shared", coefficients="diagonal-inputs")


def fixed_points():
    """Level 5."""
    c = lambda id, note, flags, s, **which: asked("stationarity", f"lean_{id}", note, f"UpdateOrder {flags}", s, BOUND, inner=1, order="canonical", **which)
    yield c("shared", "Far from a fixed point.", "GroupWeights", TRIO, latent_posterior="shared")
    yield c("mean_field", "One Gaussian a row.", "RowGaussian", TRIO_ROW, latent_posterior="mean-field")

    c = lambda id, note, flags, s, **which: asked("converge", f"lean_{id}", note, flags, s, BOUND, order="canonical", **which)
    yield c("shared", "K = 2, h = 1, L = 2.", "GroupWeights InvertedFirst", BINARY, latent_posterior="shared")
    yield c("mean_field", "K = 2, h = 1, L = 2, one Gaussian a row.", "RowGaussian", BINARY_ROW, latent_posterior="mean-field")
    yield c("coefficients", "Diagonal covariances of coefficients: a whole bound, no log normalisers of full ones.", "LeanGap InvertedFirst", BINARY, coefficients="diagonal")


def forecasts():
    """Level 6: what new rows are told after a few sweeps."""
    def c(id, note, flags, s, n, new, **which):
        return asked("forecast", f"lean_{id}", note, flags, {**s, "X_new": new}, None, n, **which)
    yield c("diagonal", "h = 1: the forecast of the full posterior.", "RateScale", BINARY, 2, [[0.5]], latent_posterior="diagonal")
    yield c("low_rank", "h = 1, and a frame of one direction that is no unit vector: the forecast of the full posterior.", "FrameSide", framed(BINARY, "binary", 0), 2, [[0.5]],
            latent_posterior="low-rank")
    yield c("shared", "h = 1.", "GroupWeights InvertedFirst", BINARY, 3, [[0.5], [-1.25]], latent_posterior="shared")
    yield c("shared_empty_expert", "An expert without rows: its covariance is that of its noise until it has some.", "EmptyExpert GroupWeights",
            p.change(BINARY, gamma=[[1, 0]] * 5), 2, [[0.5]], latent_posterior="shared")
    yield c("class_shared", "h = 1, four classes.", "GroupWeights OffByOneStick", p.state("four-classes", N=8, K=2, h=1, L=4, d=1), 2, [[0.5]], latent_posterior="class-shared")
    yield c("mean_field", "h = 1.", "RowGaussian", BINARY_ROW, 3, [[0.5], [-1.25]], latent_posterior="mean-field")
    yield c("mean_field_shared", "h = 1, four classes.", "RowGaussian GroupWeights", p.state("four-classes", N=8, K=2, h=1, L=4, d=1, shared=True), 2, [[0.5]],
            latent_posterior="mean-field-shared")
    yield c("coefficients", "Diagonal covariances of coefficients, which a forecast averages over.", "InvertedFirst PlugIn", BINARY, 2, [[0.5], [-1.25]], coefficients="diagonal")
