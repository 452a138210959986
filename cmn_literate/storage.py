"""Files: arrays, runs and models are written whole or not at all, and are read without running anything.

Hand-written and free of mathematics. A file is a zip of numpy arrays with a header in JSON; no pickle is read or written.
"""

import hashlib
import json
import os
from dataclasses import asdict, replace

import numpy as np

from cmn_literate.checks import plain_array
from cmn_literate.learners import find_learner

FORMAT, SCHEMA_VERSION = "cmn_literate.CMNClassifier", 1


def write_whole(path, write, mode="wb", **options):
    """Call write(file) on a file that takes the place of path when all is on disk; on any error what stood there stays."""
    part = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        with open(part, mode, **options) as out:
            write(out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def write_arrays(path, arrays, **header):
    """Write arrays and a header of plain values to one .npz file, atomically.

    arrays: dict of name -> array; header: whatever JSON can hold.
    ValueError for an array of objects, ragged or with masked entries, and for a
    name that numpy needs.  On any error the file that stood at path before stays.
    """
    for name, array in arrays.items():
        plain = not plain_array(array, name, labels=True).dtype.hasobject
        if not plain or name in ("file", "header", "allow_pickle"):
            raise ValueError("arrays: expected numbers or text, under names other "
                             f"than file, header, allow_pickle; got {name!r}")
    text = json.dumps(header, default=lambda value: value.tolist())
    write_whole(path, lambda out: np.savez(out, header=np.frombuffer(text.encode(), np.uint8), **arrays))


def read_arrays(path):
    """What write_arrays wrote: a dict of arrays, the header (a dict) under "header".

    FileNotFoundError, PermissionError; ValueError for a foreign, truncated or
    damaged file.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        arrays["header"] = dict(json.loads(arrays["header"].tobytes()))
    except (FileNotFoundError, PermissionError):
        raise
    except Exception:               # a damaged zip file can raise almost anything
        raise ValueError(f"{path}: expected a file written by this package, got "
                         "something else or a damaged file") from None
    return arrays


# ---- what a run is made of

def pack_tree(value, arrays, name):
    """What of value JSON can hold; its arrays go into the dict arrays, under names that begin with name.

    value: nested tuples (named ones too), lists and dicts of arrays, numbers, text, None and numpy Generators.
    """
    if isinstance(value, np.random.Generator):
        return {"generator": pack_tree(generator_state(value), arrays, name)}
    if isinstance(value, dict):
        return {"dict": {key: pack_tree(part, arrays, f"{name}.{key}") for key, part in value.items()}}
    if isinstance(value, (tuple, list)):
        kind = type(value).__name__
        return {kind: [pack_tree(part, arrays, f"{name}.{i}") for i, part in enumerate(value)]}
    if isinstance(value, np.ndarray) and value.ndim:
        arrays[name] = value
        return {"array": name}
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value


def unpack_tree(packed, arrays, kinds=()):
    """The inverse of pack_tree; kinds: the named tuples that may occur.  ValueError for others."""
    if not isinstance(packed, dict):
        return packed
    (kind, content), = packed.items()
    if kind == "array":
        return arrays[content]
    if kind == "generator":
        return generator_from(unpack_tree(content, arrays))
    if kind == "dict":
        return {key: unpack_tree(part, arrays, kinds) for key, part in content.items()}
    parts = [unpack_tree(part, arrays, kinds) for part in content]
    if kind in ("tuple", "list"):
        return tuple(parts) if kind == "tuple" else parts
    known = {cls.__name__: cls for cls in kinds}
    if kind not in known:
        raise ValueError(f"expected one of {', '.join(known) or 'no named tuples'}, got {kind}")
    return known[kind](*parts)


def generator_state(rng):
    """Everything that a numpy Generator will ever draw, and the children that it will have, as plain values."""
    bits = rng.bit_generator
    seeds = bits.seed_seq.state if isinstance(bits.seed_seq, np.random.SeedSequence) else None
    return {"kind": type(bits).__name__, "state": bits.state, "seeds": seeds}


def generator_from(state):
    """The Generator that generator_state described."""
    kind = getattr(np.random, str(state["kind"]), None)
    if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
        raise ValueError(f"expected a bit generator of numpy, got {state['kind']!r}")
    seeds = state["seeds"]
    bits = kind(0) if seeds is None else kind(np.random.SeedSequence(**seeds))
    bits.state = state["state"]
    return np.random.Generator(bits)


def fingerprint(*parts):
    """SHA-256 over parts: arrays by type, shape and bytes, tuples and lists by
    their members, everything else by repr.   -> 64 hex digits"""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"array {part.dtype.str} {part.shape} ".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        elif isinstance(part, (tuple, list)):
            digest.update(f"row {len(part)} {fingerprint(*part)}".encode())
        else:
            digest.update(f"{type(part).__name__} {part!r}".encode())
        digest.update(b"\n")
    return digest.hexdigest()


# ---- models

def save_model(est, path):
    """Write a fitted estimator to one file, atomically: what predicts, and no row of what it learned from.

    ValueError for labels that are neither numbers nor strings.
    """
    labels = est.classes_
    if labels.dtype.kind == "O":
        if not all(isinstance(label, str) for label in labels):
            raise ValueError("classes_: expected numbers or strings to save, "
                             f"got {labels.tolist()}")
        labels = labels.astype(str)
    arrays = {"classes": labels, "mean": est.mean_, "scale": est.scale_}
    if hasattr(est, "moments_"):                    # a model from a file of an earlier version may have none
        arrays |= {"column_mean": est.moments_[1], "column_deviation": est.moments_[2]}
    for i, result in enumerate(est.fits_):
        packed = find_learner(est.method_).pack(result)
        arrays.update({f"{i}.{name}": value for name, value in packed.items()})
    write_arrays(path, arrays, **_header(est))


def _header(est):
    """What is not an array: options, names of columns, kind of labels."""
    options = {k: v for k, v in est.get_params(deep=False).items() if k != "classes"}
    options["priors"] = asdict(est.priors)
    if isinstance(est.class_weight, dict):                  # JSON has no keys but texts
        options["class_weight"] = [[getattr(part, "item", lambda part=part: part)() for part in pair]
                                   for pair in est.class_weight.items()]
    if est.method_options:
        options["method_options"] = {name: os.fspath(value) if isinstance(value, os.PathLike) else value
                                     for name, value in est.method_options.items()}
    if not isinstance(est.random_state, (int, np.integer)):
        options["random_state"] = None
    features = getattr(est, "feature_names_in_", None)
    return {"format": FORMAT, "schema": SCHEMA_VERSION, "options": options,
            "method": est.method_,
            "features": None if features is None else [str(f) for f in features],
            "fixed_classes": est.classes is not None, "starts": len(est.fits_),
            "rows_seen": getattr(est, "n_rows_seen_", None), "calls": getattr(est, "calls_", None),
            "weight_seen": float(est.moments_[0]) if getattr(est, "moments_", [None])[0] else None,
            "object_labels": est.classes_.dtype.kind == "O"}


def load_model(cls, path):
    """Estimator of class cls from a file that save_model wrote.

    FileNotFoundError; ValueError: a foreign, damaged or newer file.
    """
    arrays = read_arrays(path)
    header = arrays.pop("header")
    if header.get("format") != FORMAT or type(header.get("schema")) is not int:
        raise ValueError(f"{path}: expected a file written by CMNClassifier.save, "
                         f"of format {FORMAT}, got {header.get('format')!r}")
    if header["schema"] > SCHEMA_VERSION:
        raise ValueError(f"{path}: schema {header['schema']} is newer than what this "
                         f"version reads ({SCHEMA_VERSION}): update cmn_literate")
    try:
        return _restore(cls, header, arrays)
    except Exception as error:
        raise ValueError(f"{path}: a model file with missing or damaged parts "
                         f"({type(error).__name__}: {error})") from None


def _restore(cls, header, arrays):
    options = dict(header["options"])
    options["priors"] = replace(cls().priors, **options["priors"])
    if isinstance(options.get("class_weight"), list):
        options["class_weight"] = {label: factor for label, factor in options["class_weight"]}
    est = cls(**options)
    labels = arrays["classes"]
    est.classes_ = labels.astype(object) if header["object_labels"] else labels
    est.classes = est.classes_.tolist() if header["fixed_classes"] else None
    est.mean_, est.scale_ = arrays["mean"], arrays["scale"]
    est.n_features_in_ = len(est.mean_)
    if header["features"] is not None:
        est.feature_names_in_ = np.array(header["features"], dtype=object)
    packed = [{name.partition(".")[2]: value for name, value in arrays.items()
               if name.startswith(f"{i}.")} for i in range(header["starts"])]
    est.method_ = header.get("method", est.method)
    unpack = find_learner(est.method_).unpack
    est.fits_ = [unpack(each, est) for each in packed]
    if header.get("rows_seen"):                       # files of earlier versions do not say
        est.n_rows_seen_, est.calls_ = header["rows_seen"], tuple(map(tuple, header["calls"]))
        est.moments_ = header.get("weight_seen"), arrays["column_mean"], arrays["column_deviation"]     # no weight: the posterior knows
    est.summarize()
    return est
