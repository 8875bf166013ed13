"""`python -m steelyard_workers.sampler`: vLLM's server with our middleware and plug-in."""

from steelyard_workers.termination import reported

if __name__ == "__main__":
    with reported():  # its parts take seconds to import, and a stop may come meanwhile
        from steelyard_workers.sampler.run import run

        run()
