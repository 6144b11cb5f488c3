"""Signatures with types: of ops from their declaration, of Python functions from their parameters and bodies.

The sources carry no annotations. What a parameter is called and what its default is says what it takes: one
table (`NAMED`) for the names, the default's type for the rest. What comes back is read off the `return`
statements.
"""

import ast
import inspect
import textwrap
from functools import cache

from flambeau.ops.spec import REGISTRY
from flambeau.runtime._core import Tensor

OPS = {id(operation.function): operation for operation in REGISTRY.values()}
SIZE, NUMBER = "int | Sequence[int]", "Tensor | Number"
# What a parameter of this name takes: annotation -> names.
TAKES = {
    "Tensor": """
        input other mask index indices source src weight weights bias target targets tensor tensor1
        tensor2 query key mat mat1 mat2 vec vec1 vec2 batch1 batch2 A B C LU LU_data LU_pivots LD pivots
        tau input1 input2 x1 x2 x y anchor positive negative grid theta log_probs running_mean
        running_var attn_mask bias_k bias_v in_proj_weight in_proj_bias out_proj_weight out_proj_bias hx
        abs angle real imag linear_weight linear_bias boundaries sorted_sequence sorter elements
        test_elements condition window offsets per_sample_weights pos_weight key_padding_mask
        the_template tgt src_mask tgt_mask memory memory_mask src_key_padding_mask tgt_key_padding_mask
        memory_key_padding_mask crow_indices col_indices fweights aweights var logits q_proj_weight
        k_proj_weight v_proj_weight static_k static_v batch_sizes sorted_indices unsorted_indices grad
        prob count labels
    """,
    "DType": "dtype",
    "Device | str": "device",
    "Layout": "layout",
    "MemoryFormat": "memory_format",
    "Generator": "generator",
    "Tensor | tuple[Tensor, ...]": "out",
    SIZE: """
        size shape sizes dims kernel_size stride dilation output_padding normalized_shape shifts
        split_size_or_sections sections destination
    """,
    "int | Sequence[int] | str": "padding",
    "int | Sequence[int | None]": "output_size",
    "Tensor | " + SIZE: "repeats indices_or_sections",
    "Sequence[Tensor]": "tensors",
    "Any": "value",
    "Number": "fill_value start end step alpha beta correction",
    NUMBER: "min max",
    "int": """
        n dim0 dim1 dim2 steps k groups in_channels out_channels in_features out_features num_features
        hidden_size input_size embed_dim num_heads num_embeddings embedding_dim d_model nhead num_layers
        num_groups num_channels num_samples chunks padding_idx axis0 axis1 diagonal window_length M
        length low high upscale_factor downscale_factor kdim vdim seed
    """,
    "str": "reduction reduce mode norm equation name prefix",
    "float": "p eps max_norm norm_type momentum threshold margin lower negative_slope",
    "float | Sequence[float]": "scale_factor",
    "bool": "requires_grad non_blocking upper unbiased recurse copy",
    "Sequence[int]": "s",
    "float | Tensor": "rtol atol",
    "Module": "module",
    "int | Tensor": "bins",
    "Iterable[Tensor] | Tensor": "parameters",
    "Iterable[Module]": "modules",
}
NAMED = {name: kind for kind, names in TAKES.items() for name in names.split()}
VARIADIC = {
    "size": SIZE,
    "dims": SIZE,
    "shape": SIZE,
    "sizes": SIZE,
    "bounds": "Number",
    "tensors": "Tensor | Sequence[Tensor]",
    "operands": "Tensor | Sequence[Tensor]",
    "shapes": SIZE,
    "matrices": "Tensor",
}
OF_TENSORS = (
    "flambeau.ops.",
    "flambeau.nn.functional",
    "flambeau.tensor.create",
    "flambeau.tensor.more_creation",
    "flambeau.tensor.draws",
    "flambeau.tensor.methods",
)  # modules whose functions give tensors
PLAIN = {bool: "bool", int: "int", float: "float", str: "str", complex: "complex"}
SIMPLE = (bool, int, float, str, type(None))

# What a function gives where its body does not say it: annotation -> names.
GIVES = {
    "tuple[Tensor, ...]": """
        chunk split unbind tensor_split hsplit vsplit dsplit split_with_sizes unsafe_chunk unsafe_split
        unsafe_split_with_sizes meshgrid broadcast_tensors align_tensors unravel_index gradient
        split_copy unbind_copy split_with_sizes_copy
    """,
    "bool": """
        allclose equal is_tensor is_nonzero is_floating_point is_complex is_signed is_storage
        is_grad_enabled is_same_size is_contiguous can_cast is_conj is_neg is_inference is_pinned
        is_shared has_names is_set_to is_distributed is_coalesced are_deterministic_algorithms_enabled
    """,
    "int": """
        numel nelement dim ndimension element_size storage_offset data_ptr get_num_threads get_device
        initial_seed seed dense_dim sparse_dim __len__
    """,
    "Any": """
        item tolist numpy load storage untyped_storage to_dlpack unique unique_consecutive nonzero where
        vmap histogramdd lu atleast_1d atleast_2d atleast_3d stride size type
    """,
    "Tensor": """
        tril triu logdet index_fill fill prelu detach bernoulli as_subclass from_dlpack get_rng_state
        new_empty_strided to_dense cdouble cfloat vector_norm nonzero_static
    """,
    "str": "typename get_float32_matmul_precision",
    "None": "backward save set_default_dtype set_printoptions set_num_threads set_rng_state retain_grad",
    "DType": "promote_types result_type get_default_dtype",
    "tuple[Tensor | None, ...]": "grad",
    "Generator": "manual_seed",
    "Size": "broadcast_shapes",
    "tuple[Tensor, Tensor]": "std_mean",
}
RETURNS = {name: kind for kind, names in GIVES.items() for name in names.split()}


def parameters_of(function):
    """The parameters as inspect shows them; of an op from its declaration, of `x_` from those of `x`."""
    operation = OPS.get(id(function))
    if operation is not None:
        own = eval(f"lambda {operation.signature}: None")  # noqa: S307 - our own text
        return list(inspect.signature(own).parameters.values())
    return list(inspect.signature(function).parameters.values())


def type_of(parameter, operation=None):
    """The annotation of a parameter."""
    name, default = parameter.name, parameter.default
    found = NAMED.get(name)
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return VARIADIC.get(name, "Any")
    if operation is not None and name in operation.operands:
        found = (
            "Sequence[Tensor]"
            if name == "tensors"
            else NUMBER
            if operation.numbers and name != "input"
            else "Tensor"
        )
    elif name in ("dim", "axis"):
        found = "int" if isinstance(default, int) or default is inspect.Parameter.empty else SIZE
    if not covers(found, default):
        number = type(default) is float or found == "Tensor" and type(default) is int
        found = "float" if number else PLAIN.get(type(default), "Any")
    if found is None:
        found = SIZE if isinstance(default, tuple) and default and isinstance(default[0], int) else "Any"
    if name == "other" and operation is None and found == "Tensor":
        found = NUMBER
    return found + " | None" if default is None and found != "Any" else found


def covers(found, default):
    """True if a parameter of this type may have that default."""
    words = {
        bool: ("bool",),
        int: ("int", "float", "Number"),
        float: ("float", "Number"),
        str: ("str",),
        tuple: ("Sequence",),
    }
    return any(word in (found or "") for word in words.get(type(default), ("",)))


def shown_default(value):
    """Numbers, strings, None and tuples of them as they are; anything else as `...`."""
    if isinstance(value, tuple) and all(type(v) in SIMPLE for v in value):
        return repr(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return "..."
    return repr(value) if type(value) in SIMPLE else "..."


def result_class(fields):
    """The name of the NamedTuple with these fields: ValuesIndices."""
    return "".join(part[:1].upper() + part[1:] for field in fields for part in field.split("_"))


def takes_out(operation):
    """True for the function of an op that takes `out=`, which its declaration does not list."""
    return (
        operation is not None
        and not operation.internal
        and operation.kind not in ("view", "random", "create")
        and not operation.name.startswith("_")
        and "out" not in operation.parameters
    )


def signature(name, function, method=False, typed=True):
    """`(input: Tensor, dim: int = 0) -> Tensor`; without types and result for pages."""
    operation = OPS.get(id(function))
    parameters = parameters_of(function)
    variadic = operation.variadic if operation is not None else None
    if method:
        parameters = parameters[1:]
    parts, bare, positional_only = (["self"] if method else []), False, False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not bare:
            parts.append("*")
            bare = True
        bare |= p.kind is p.VAR_POSITIONAL
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if positional_only and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
        positional_only = p.kind is p.POSITIONAL_ONLY
        text = star + p.name
        if p.name == variadic:  # sizes one by one, or as one argument
            text, star, bare = "*" + p.name, "*", True
            parts.append(text + (": int | Sequence[int] | None" if typed else ""))
            continue
        if typed:
            text += f": {type_of(p, operation)}"
        if p.default is not p.empty:
            text += f" = {shown_default(p.default)}" if typed else f"={shown_default(p.default)}"
        parts.append(text)
    if positional_only:
        parts.append("/")
    if typed and not method and takes_out(operation):
        kind = "tuple[Tensor, ...]" if operation.outputs else "Tensor"
        parts += [*([] if bare else ["*"]), f"out: {kind} | None = None"]
    return f"({', '.join(parts)})" + (f" -> {returns(name, function)}" if typed else "")


# ---------------------------------------------------------------------------------- results
def returns(name, function):
    """The annotation of what a call gives."""
    short = name.rpartition(".")[2]
    if short in RETURNS:
        return RETURNS[short]
    operation = OPS.get(id(function))
    if operation is not None:
        if operation.outputs:
            return result_class(operation.outputs)
        return "Tensor"
    if short.endswith("_") and not short.startswith("_"):
        return "Tensor"
    if short.startswith("is_"):
        return "bool"
    module = getattr(function, "__module__", None) or ""
    return inferred(inspect.unwrap(function)) or ("Tensor" if module.startswith(OF_TENSORS) else "Any")


@cache
def inferred(function, depth=4):
    """The annotation that a function's return statements agree on, or None."""
    if depth == 0 or not inspect.isfunction(function):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
    if not isinstance(tree, ast.FunctionDef):
        return None
    found = {
        "None" if node.value is None else kind_of(node.value, function, depth) for node in own_returns(tree)
    }
    if not found:
        return "None" if not any(isinstance(n, ast.Raise) for n in tree.body) else None
    known = found - {None}
    if len(known) > 1:
        return "Any"
    return known.pop() if known == found or known == {"Tensor"} else None


def own_returns(node):
    """The return statements of a function, without those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(child, ast.Return):
            yield child
        yield from own_returns(child)


def callee(node, function):
    """(name, object) of what a call in the body of a function names: `f`, or `module.f`."""
    if isinstance(node, ast.Name):
        return node.id, function.__globals__.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = function.__globals__.get(node.value.id)
        if inspect.ismodule(module):
            return node.attr, getattr(module, node.attr, None)
    return "", None


def kind_of(node, function, depth):
    """The annotation of an expression in the body of a function, None where it cannot be told."""
    if isinstance(node, ast.Constant):
        return "None" if node.value is None else PLAIN.get(type(node.value))
    if isinstance(node, ast.Tuple):
        parts = [kind_of(e, function, depth) for e in node.elts]
        return f"tuple[{', '.join(parts)}]" if all(parts) else None
    if isinstance(node, ast.IfExp):
        both = {kind_of(n, function, depth) for n in (node.body, node.orelse)} - {None}
        return both.pop() if len(both) == 1 else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return "bool"
    if not isinstance(node, ast.Call):
        return None
    name, called = callee(node.func, function)
    if called is None:
        return name if name in ("bool", "int", "float", "str") else None
    if inspect.isclass(called):
        fields = getattr(called, "_fields", None)
        return result_class(fields) if fields else "Tensor" if called is Tensor else None
    operation = OPS.get(id(called))
    if operation is not None:
        return returns(operation.name, called)
    return RETURNS.get(name) or inferred(inspect.unwrap(called), depth - 1)
