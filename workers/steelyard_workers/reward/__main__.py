"""`python -m steelyard_workers.reward`: takes trajectories, publishes experience, answers /v1/score."""

from steelyard_workers.termination import reported

if __name__ == "__main__":
    with reported():  # its parts take seconds to import, and a stop may come meanwhile
        from steelyard_workers.reward.run import run

        run()
