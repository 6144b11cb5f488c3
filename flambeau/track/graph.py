"""The graph of a model as TensorBoard draws it: a node an op, in the boxes of the modules that called it.

The model runs once, without gradients; every op that it calls, its operands and the modules around it are
noted.
"""

from contextlib import contextmanager

from flambeau.nn import global_hooks
from flambeau.nn.module import Module
from flambeau.ops.interpose import Interposer
from flambeau.ops.spec import bind
from flambeau.runtime._core import Tensor
from flambeau.tensor.autograd import no_grad
from flambeau.track.messages import encode

__all__ = ["model_graph"]


class _Notes(Interposer):
    """Writes down the ops of a run as nodes."""

    def __init__(self, model):
        self.nodes, self.held, self.names, self.used = [], [], {}, {}
        self.labels = {id(module): name for name, module in model.named_modules()}
        self.scopes = []

    def handle(self, operation, args, kwargs):
        result = bind(operation, args, kwargs)
        flat = _flat((args, tuple(kwargs.values())))
        operands = [value for value in flat if isinstance(value, Tensor)]
        attributes = ", ".join(
            [repr(value) for value in flat if not isinstance(value, Tensor)]
            + [
                f"{key}={value!r}"
                for key, value in kwargs.items()
                if not isinstance(value, (Tensor, tuple, list))
            ]
        )
        results = [value for value in _flat(result) if isinstance(value, Tensor)]
        if results and all(id(value) in self.names for value in results) and operation.kind == "view":
            return result
        self.add(
            operation.name,
            "aten::" + operation.name,
            [self.name_of(each) for each in operands],
            results,
            attributes,
        )
        return result

    def add(self, name, op, inputs, results, attributes=""):
        """A node in the present scope, known as the maker of `results`."""
        name = self.unused("/".join([*self.scopes, name]))
        attr = [{"key": "attr", "value": {"s": attributes[:1000].encode()}}]
        if results:
            shapes = [{"dim": [{"size": size} for size in each.shape]} for each in results]
            attr.append({"key": "_output_shapes", "value": {"list": {"shape": shapes}}})
        self.nodes.append({"name": name, "op": op, "input": inputs, "attr": attr})
        self.held.extend(results)  # so that no other tensor gets their identity
        for each in results:
            self.names[id(each)] = name
        return name

    def unused(self, name):
        number = self.used[name] = self.used.get(name, -1) + 1
        return f"{name}_{number}" if number else name

    def name_of(self, tensor):
        if id(tensor) not in self.names:
            self.add("constant", "prim::Constant", [], [tensor])
        return self.names[id(tensor)]

    @contextmanager
    def scope_of_modules(self, root):
        """Meanwhile, `scopes` are the modules that run."""

        def enter(module, args):
            label = self.labels.get(id(module), "")
            kind = type(module).__name__
            self.scopes.append(kind if module is root else f"{kind}[{label.rpartition('.')[2]}]")

        def leave(module, args, output):
            self.scopes.pop()

        handles = [
            global_hooks.register_module_forward_pre_hook(enter),
            global_hooks.register_module_forward_hook(leave, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def note_parameters(self, model):
        """A node for every parameter and buffer, in the box of its module."""
        for prefix, module in model.named_modules():
            path, inner = [type(model).__name__], model
            for part in prefix.split(".") if prefix else ():
                inner = getattr(inner, part) if not isinstance(inner, Module) else inner._modules[part]
                path.append(f"{type(inner).__name__}[{part}]")
            owned = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            for name, value in owned:
                if id(value) not in self.names:
                    self.scopes = path
                    self.add(name, "prim::GetAttr", [], [value], f"{{ name :  {name} }}")
        self.scopes = []


def _flat(value):
    if isinstance(value, (tuple, list)):
        return [each for part in value for each in _flat(part)]
    if isinstance(value, dict):
        return [each for part in value.values() for each in _flat(part)]
    return [value]


def model_graph(model, inputs=(), verbose=False):
    """(GraphDef, RunMetadata) as bytes: the ops of `model(*inputs)`.

    Args:
        model: a Module.
        inputs: its arguments: a tensor, or a tuple of any values.
        verbose: print a line for every node.
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    notes = _Notes(model)
    tensors = [value for value in _flat(inputs) if isinstance(value, Tensor)]
    for number, each in enumerate(tensors):
        notes.add(f"input/{number}" if len(tensors) > 1 else "input/input", "IO Node", [], [each])
    notes.note_parameters(model)
    with no_grad(), notes.scope_of_modules(model), notes:
        output = model(*inputs)
    for number, each in enumerate(value for value in _flat(output) if isinstance(value, Tensor)):
        name = notes.name_of(each)
        notes.add(f"output/output.{number + 1}", "IO Node", [name], [])
    if verbose:
        for node in notes.nodes:
            print(f"{node['name']} = {node['op']}({', '.join(node['input'])})")
    graph = encode("GraphDef", {"node": notes.nodes, "versions": {"producer": 22}})
    device = b"\n\x11\n\x0f\n\r/device:CPU:0"  # RunMetadata with one step on one device
    return graph, device
