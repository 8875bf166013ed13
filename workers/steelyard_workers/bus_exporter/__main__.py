"""`python -m steelyard_workers.bus_exporter`: tells Prometheus how full the buffers are."""

from steelyard_workers.termination import reported

if __name__ == "__main__":
    with reported():  # its parts take seconds to import, and a stop may come meanwhile
        from steelyard_workers.bus_exporter.run import run

        run()
