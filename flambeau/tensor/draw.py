"""The recorded graph as a picture: an SVG with a layered layout (Sugiyama, Tagawa and Toda, 1981: layers by
longest path, order by barycentres, dummy boxes along long edges).

Gradients flow from the bottom to the top; the forward pass reads from the top to the bottom.
"""

import html
from dataclasses import dataclass, field

from flambeau.base.text import human_bytes
from flambeau.tensor.explain import Leaf, explain, shape_text
from flambeau.tensor.folding import fold

__all__ = ["draw"]

COLOURS = {"leaf": ("#d8f0d0", "#4f9a3d"), "input": ("#e4e4f7", "#6a6ab8"),
           "contraction": ("#fbd9c0", "#d0782c"),
           "window": ("#fbd9c0", "#d0782c"), "composite": ("#fcefc2", "#c2a02a"),
           "elementwise": ("#dcecfb", "#4a86c5"),
           "reduction": ("#f9d7e3", "#c2527e"), "view": ("#f1f1f1", "#9a9a9a"),
           "function": ("#e3d6f5", "#8457c0"),
           "fold": ("#ffffff", "#555555"), "root": ("#ffd2d2", "#c43c3c")}
CHARACTER, LINE, PADDING = 6.3, 14, 8           # pixels: width of a character, height of a line, inner margin
GAP_X, GAP_Y, DUMMY = 18, 34, 6
SWEEPS = 12


@dataclass(eq=False)
class Box:
    """One box: its lines of text, its kind, the boxes that it takes inputs from; then its place."""

    lines: list
    kind: str
    after: list = field(default_factory=list)
    layer: int = 0
    x: float = 0.0          # centre
    y: float = 0.0          # top
    dummy: bool = False
    title: str = ""

    @property
    def width(self):
        return DUMMY if self.dummy else max(map(len, self.lines)) * CHARACTER + 2 * PADDING

    @property
    def height(self):
        return 0 if self.dummy else len(self.lines) * LINE + PADDING


def draw(tensors, path="graph.svg", model=None, max_boxes=300):
    """Write the graph behind a tensor (or several) as an SVG picture; returns the `Explanation` that it
    shows.

    Args:
        tensors: what `backward` would start from; red in the picture.
        path: the file, or an object with `write`.
        model: a module that names the leaves (green) that are its parameters.
        max_boxes: with more ops than this, repeated parts and chains are folded to one box each.

    Ops are coloured by kind and show the shape of their output, what they keep for the backward pass and the
    line of the program that called them.

    Raises:
        RuntimeError: if a tensor has no recorded history.

    >>> import io
    >>> picture = io.StringIO()
    >>> _ = fl.autograd.draw((fl.ones(3, requires_grad=True).exp() * 2).sum(), picture)
    >>> picture.getvalue().startswith("<svg")
    True
    """
    report = explain(tensors, model)
    boxes = _boxes(report, max_boxes)
    text = _svg(*_layout(boxes))
    if hasattr(path, "write"):
        path.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return report


# ---------------------------------------------------------------------------------- from the report to boxes
def _boxes(report, max_boxes):
    """Boxes for groups of ops and for leaves."""
    groups = fold(report.rows, max_boxes)
    group_of = {row.number: g for g, group in enumerate(groups) for row in group.rows}
    boxes = [_op_box(group, report.roots) for group in groups]
    leaves = {}
    for row in report.rows:
        box = boxes[group_of[row.number]]
        for source in row.inputs:
            if isinstance(source, Leaf):
                if len(groups[group_of[row.number]].rows) > 1:      # inside a fold: not drawn
                    continue
                if source.number not in leaves:
                    leaves[source.number] = Box([source.label, shape_text(source.shape)],
                                                "leaf" if source.parameter else "input",
                                                title=f"leaf {source.label}")
                before = leaves[source.number]
            elif source is None or group_of[source] == group_of[row.number]:
                continue
            else:
                before = boxes[group_of[source]]
            if before not in box.after:
                box.after.append(before)
    return boxes + list(leaves.values())


def _op_box(group, roots):
    rows = group.rows
    saved = sum(row.saved for row in rows)
    root = any(row.number in roots for row in rows)
    if len(rows) > 1:
        lines = [group.title, f"→ {shape_text(rows[-1].shape)}"]
    else:
        lines = [rows[0].op, "→ " + ", ".join(shape_text(form[0]) for form in rows[0].outputs
                                              if form is not None)]
        lines += [rows[0].line] if rows[0].line else []
    lines += [f"keeps {human_bytes(saved)}"] if saved else []
    kind = "root" if root else "fold" if len(rows) > 1 else rows[0].kind
    return Box(lines, kind, title="\n".join(f"#{row.number} {row.op} {row.line}" for row in rows[:40]))


# ---------------------------------------------------------------------------------- layout
def _layout(boxes):
    """(boxes, edges, width, height): places of all boxes; an edge is the list of boxes that it runs
    through."""
    _assign_layers(boxes)
    layers, edges, links = _with_dummies(boxes)
    _order(layers, links)
    _place(layers, links)
    left = min(box.x - box.width / 2 for layer in layers for box in layer)
    for layer in layers:
        for box in layer:
            box.x += 20 - left
    y = 20
    for layer in layers:
        height = max(box.height for box in layer)
        for box in layer:
            box.y = y + (height - box.height) / 2
        y += height + GAP_Y
    width = max(box.x + box.width / 2 for layer in layers for box in layer) + 20
    return boxes, edges, width, y - GAP_Y + 20


def _assign_layers(boxes):
    """Longest path from the inputs; leaves stand just above the first op that uses them."""
    users = {box: [] for box in boxes}
    waiting = {box: len(box.after) for box in boxes}
    for box in boxes:
        for before in box.after:
            users[before].append(box)
    ready = [box for box in boxes if not box.after]
    while ready:
        box = ready.pop()
        for user in users[box]:
            user.layer = max(user.layer, box.layer + 1)
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    for box in boxes:
        if not box.after and users[box]:
            box.layer = min(user.layer for user in users[box]) - 1


def _with_dummies(boxes):
    """Layers of boxes, edges as chains of boxes from layer to layer, links {box: neighbours above}."""
    layers = [[] for _ in range(max(box.layer for box in boxes) + 1)]
    for box in boxes:
        layers[box.layer].append(box)
    edges, links = [], {box: [] for box in boxes}
    for box in boxes:
        for before in box.after:
            chain = [before]
            for layer in range(before.layer + 1, box.layer):
                dummy = Box([""], "dummy", layer=layer, dummy=True)
                layers[layer].append(dummy)
                links[dummy] = [chain[-1]]
                chain.append(dummy)
            links[box].append(chain[-1])
            edges.append([*chain, box])
    return layers, edges, links


def _below(links):
    found = {box: [] for box in links}
    for box, above in links.items():
        for other in above:
            found[other].append(box)
    return found


def _order(layers, links):
    """Order within layers: sweeps down and up, each box at the mean place of its neighbours."""
    below = _below(links)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            places = _places(layers, layer)
            neighbours = links if down else below
            keys = {}
            for i, box in enumerate(layer):
                found = [places[other] for other in neighbours[box]]
                keys[box] = sum(found) / len(found) if found else i
            layer.sort(key=keys.get)


def _places(layers, layer):
    """Relative places (0 to 1) of the boxes in the layers beside this one."""
    number = layer[0].layer
    found = {}
    for other in (number - 1, number + 1):
        if 0 <= other < len(layers):
            count = max(len(layers[other]) - 1, 1)
            found.update({box: i / count * len(layer) for i, box in enumerate(layers[other])})
    return found


def _place(layers, links):
    """Horizontal places: each layer packed, then drawn towards the mean of its neighbours without overlap."""
    below = _below(links)
    for layer in layers:
        x = 0.0
        for box in layer:
            box.x = x + box.width / 2
            x += box.width + GAP_X
        for box in layer:
            box.x -= x / 2
    for sweep in range(2 * SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wished = []
            for box in layer:
                near = (links[box], below[box])[sweep % 2] or links[box] or below[box]
                wished.append(sum(other.x for other in near) / len(near) if near else box.x)
            _settle(layer, wished)


def _settle(layer, wished):
    """The places nearest to the wished ones that keep the order and the gaps: boxes that collide form a
    block."""
    blocks = []             # [sum of wishes of the block's first box, count, boxes' offsets]
    for box, wish in zip(layer, wished):
        blocks.append([wish, 1, [(box, 0.0)]])
        while len(blocks) > 1:
            total, count, members = blocks[-2]
            last, offset = members[-1]
            following = blocks[-1][2][0][0]
            shift = offset + (last.width + following.width) / 2 + GAP_X
            if total / count + shift <= blocks[-1][0] / blocks[-1][1]:
                break
            later = blocks.pop()
            blocks[-1] = [total + later[0] - shift * later[1], count + later[1],
                          members + [(b, at + shift) for b, at in later[2]]]
    for total, count, members in blocks:
        for box, offset in members:
            box.x = total / count + offset


# ---------------------------------------------------------------------------------- text of the picture
def _svg(boxes, edges, width, height):
    kinds = [kind for kind in COLOURS if any(box.kind == kind for box in boxes)]
    width = max(width, 40 + sum(32 + len(kind) * CHARACTER for kind in kinds))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height + 24:.0f}" '
           f'viewBox="0 0 {width:.0f} {height + 24:.0f}" font-family="DejaVu Sans Mono, Menlo, Consolas, '
           f'monospace" '
           'font-size="10.5">', f'<rect width="{width:.0f}" height="{height + 24:.0f}" fill="white"/>',
           '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
           'orient="auto">' '<path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker></defs>']
    out += [_edge_text(chain) for chain in edges]
    out += [_box_text(box) for box in boxes]
    x = 20
    for kind in kinds:
        fill, line = COLOURS[kind]
        out.append(f'<rect x="{x:.0f}" y="{height + 2:.0f}" width="10" height="10" fill="{fill}" '
                   f'stroke="{line}"/>'
                   f'<text x="{x + 14:.0f}" y="{height + 11:.0f}" fill="#444">{kind}</text>')
        x += 32 + len(kind) * CHARACTER
    return "\n".join([*out, "</svg>\n"])


def _edge_text(chain):
    first, last = chain[0], chain[-1]
    points = [(first.x, first.y + first.height), *((box.x, box.y) for box in chain[1:-1]),
              (last.x, last.y - 1)]
    path = [f"M{points[0][0]:.1f},{points[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        middle = (y0 + y1) / 2
        path.append(f"C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f}")
    return f'<path d="{" ".join(path)}" fill="none" stroke="#777" stroke-width="1" marker-end="url(#tip)"/>'


def _box_text(box):
    fill, line = COLOURS.get(box.kind, COLOURS["elementwise"])
    corner = 2 if box.kind in ("leaf", "input") else 6
    dash = ' stroke-dasharray="4 2"' if box.kind == "fold" else ""
    x = box.x - box.width / 2
    words = "".join(f'<tspan x="{box.x:.1f}" y="{box.y + PADDING / 2 + LINE * i + 10.5:.1f}" '
                    f'font-weight="{"normal" if i else "bold"}">{html.escape(text)}</tspan>'
                    for i, text in enumerate(box.lines))
    return (f'<g><title>{html.escape(box.title)}</title><rect x="{x:.1f}" y="{box.y:.1f}" '
            f'width="{box.width:.1f}" height="{box.height:.1f}" rx="{corner}" fill="{fill}" '
            f'stroke="{line}"{dash}/>'
            f'<text text-anchor="middle" fill="#222">{words}</text></g>')
