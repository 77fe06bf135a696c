"""Methods of `bitkin fit`: the class behind each, and which of its parameters an option sets.

Messages of the library name parameters; `spell_options` reads here how they are typed.
"""

from __future__ import annotations

# Parameters of what fills a slot, with the names that have them.
OF_PROJECTIONS = dict.fromkeys(("samples", "features", "sampling", "truncate"), ("nystrom",))
OF_ROTATIONS = {"max_rows": ("auto", "itq"), "n_iter": ("auto", "itq", "isohash")}

# Method -> the class's public name, and its options with the parameters they set.
METHODS: dict[str, tuple[str, dict[str, str]]] = {
    "projection": (
        "ProjectionHash",
        {
            "--bits": "n_bits",
            "--projection": "projection",
            "--rotation": "rotation",
            "--rotation-start": "rotation",
            "--forgetting": "projection",
            "--center": "center",
            "--normalize": "normalize",
            "--sample-rows": "samples",
            "--sample-features": "features",
            "--sampling": "sampling",
            "--truncate": "truncate",
            "--rotation-rows": "max_rows",
            "--rotation-iterations": "n_iter",
        },
    ),
    "wta": (
        "WTAHash",
        {
            "--hashes": "n_hashes",
            "--window": "window",
            "--degree": "degree",
            "--densify": "densify",
            "--coefficients": "coefficients",
            "--alphabet": "alphabet_size",
            "--layout": "layout",
            "--center": "center",
            "--scale": "scale",
        },
    ),
    "minhash": ("MinHash", {"--hashes": "n_hashes", "--symbol-bits": "bits_per_symbol"}),
    "sign": ("SignHash", {}),
}


def options_of_parameters() -> dict[str, str]:
    """Return the option that sets each parameter; the first where several have a part in it."""
    spelled: dict[str, str] = {}
    for _, options in METHODS.values():
        for option, parameter in options.items():
            spelled.setdefault(parameter, option)
    return spelled
