"""torch.futures: results that are there. Work is done when it is asked for, so nobody has to wait."""


class Future:
    """A result, or the error that stands in its place.

    >>> future = Future()
    >>> future.set_result(3)
    >>> future.then(lambda done: done.value() + 1).wait()
    4
    """

    def __init__(self, *, devices=None):
        self._done, self._value, self._error, self._callbacks = False, None, None, []

    def done(self):
        """Whether there is a result or an error."""
        return self._done

    def wait(self):
        """The result; raises the error if there is one, RuntimeError if nothing will ever come."""
        if not self._done:
            raise RuntimeError("[Future] nothing has been set, and there is nobody else to set it")
        if self._error is not None:
            raise self._error
        return self._value

    value = wait

    def set_result(self, result):
        """Give the result; RuntimeError if there is one already."""
        self._finish(result, None)

    def set_exception(self, result):
        """Give an error in its place."""
        self._finish(None, result)

    def _finish(self, value, error):
        if self._done:
            raise RuntimeError("Future can only be marked completed once")
        self._done, self._value, self._error = True, value, error
        for callback in self._callbacks:
            callback(self)

    def add_done_callback(self, callback):
        """Call `callback(future)` when it is done, at once if it is."""
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def then(self, callback):
        """A future of `callback(self)`."""
        made = Future()

        def go_on(done):
            try:
                made.set_result(callback(done))
            except Exception as error:      # noqa: BLE001 - it is handed on
                made.set_exception(error)
        self.add_done_callback(go_on)
        return made


def collect_all(futures):
    """A future of the list of futures."""
    made = Future()
    made.set_result(list(futures))
    return made


def wait_all(futures):
    """The results, in order."""
    return [future.wait() for future in futures]
