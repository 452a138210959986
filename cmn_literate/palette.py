"""One look for the whole book: which colour, marker, line and hatch a method, a class and an expert have.

The colours are those of Okabe and Ito, told apart by most eyes that do not see red and green; each comes with a marker, a line or
a hatch of its own, so that every picture can be read in grey.
"""

INK, GREY, PALE = "#000000", "#6E6E6E", "#D9D9D9"       # the truth and the data; helping lines; what stays in the background

# method: colour, marker, line style
METHODS = {
    "cavi": ("#0072B2", "o", "-"),
    "mle-network": ("#D55E00", "s", "--"),
    "mle-exact": ("#E69F00", "D", ":"),
    "bbvi": ("#009E73", "^", "-."),
    "gibbs": ("#CC79A7", "v", "-"),
    "nuts": ("#000000", "X", "--"),
    "hmc": ("#56B4E9", "P", "-."),
}

# class c: the colour of its rows, the pale colour of its region, the marker of its rows; after six classes they begin again
CLASSES = (
    ("#0072B2", "#CFE3F2", "o"),
    ("#D55E00", "#F8DFCF", "s"),
    ("#009E73", "#E4F5EF", "^"),
    ("#B8578F", "#F2DEEA", "D"),
    ("#8A6500", "#F6E6BF", "v"),
    ("#2B7FB3", "#DCEFFB", "X"),
)

# expert k: colour and hatch; after eight experts they begin again
EXPERTS = (
    ("#0072B2", ""), ("#D55E00", "//"), ("#009E73", "\\\\"), ("#CC79A7", ".."),
    ("#E69F00", "xx"), ("#56B4E9", "--"), ("#8C6BB1", "||"), ("#6E6E6E", "++"),
)


def method(name):
    """Keywords of ax.plot for a method of METHODS: color, marker, linestyle.   ValueError for another name."""
    if name not in METHODS:
        raise ValueError(f"name: expected one of {', '.join(METHODS)}, got {name!r}")
    return dict(zip(("color", "marker", "linestyle"), METHODS[name]))


def rows(c):
    """Keywords of ax.plot for the rows of class c = 0, 1, ...: color, marker, markeredgecolor, linestyle."""
    colour, _, marker = CLASSES[c % len(CLASSES)]
    return {"color": colour, "marker": marker, "markeredgecolor": "white", "markeredgewidth": 0.4, "linestyle": "none"}


def region(c):
    """The pale colour of the region in which class c = 0, 1, ... wins."""
    return CLASSES[c % len(CLASSES)][1]


def expert(k):
    """Keywords of a filled patch for expert k = 0, 1, ...: facecolor and hatch."""
    colour, hatch = EXPERTS[k % len(EXPERTS)]
    return {"facecolor": colour, "hatch": hatch}
