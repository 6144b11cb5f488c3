"""torch.cuda.random: there is no generator to seed; what would read one is refused."""

from flambeau.torch import _absent

globals().update(_absent.nothing("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state",
                                 "set_rng_state_all"),
                 **_absent.answered([], "get_rng_state_all"),
                 **_absent.refused("cuda", "get_rng_state", "initial_seed"))
