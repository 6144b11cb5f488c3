"""torch.compiler.config: settings that are kept and have no effect."""

job_id = None
dynamic_sources = ""
force_disable_caches = False
cache_key_tag = ""
