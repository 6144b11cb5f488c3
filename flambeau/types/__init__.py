"""The vocabulary of tensors: element types, sizes, shapes, layouts, devices."""
