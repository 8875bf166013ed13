"""`python -m steelyard_workers.environment`: takes tasks, publishes trajectories."""

from steelyard_workers.termination import reported

if __name__ == "__main__":
    with reported():  # its parts take seconds to import, and a stop may come meanwhile
        from steelyard_workers.environment.run import run

        run()
