"""torch.utils._contextlib"""

import functools
import inspect


class _DecoratorContextManager:
    """A context manager that also decorates functions and generators; each call enters a `clone()` of it."""

    def clone(self):
        """A new one for the next call."""
        return type(self)()

    def __call__(self, function):
        if inspect.isclass(function):
            function.__init__ = self(function.__init__)
            return function
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generate(*args, **kwargs):
                inner = function(*args, **kwargs)
                sent = None
                while True:
                    try:
                        with self.clone():
                            value = inner.send(sent)
                    except StopIteration as stop:
                        return stop.value
                    sent = yield value

            return generate

        @functools.wraps(function)
        def call(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return call

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, *error):
        raise NotImplementedError


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One without arguments: `@manager` is `@manager()`."""

    def __new__(cls, function=None):
        made = super().__new__(cls)
        if function is not None:
            return made(function)
        return made
