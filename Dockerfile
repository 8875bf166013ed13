# The images of Steelyard: operator, worker (environment, reward server, bus exporter), sampler, trainer, nats.
#
#   docker build --target operator .
#
# BASE_IMAGE needs Python 3.11 or newer as `python3` with its venv module, and CA certificates. The sampler for GPUs also needs
# Python's headers and apt; nothing of CUDA, whose libraries come with the wheels, but nodes with driver 580 or newer (CUDA 13).
# ACCELERATOR=cpu makes small images for tests: BASE_IMAGE must then have exactly Python 3.11, binutils and libnuma1, and the
# wheels that no index has come from the build context `wheels` (`python -m e2e.images build` does all that).
#
# A change of our own code rebuilds the last, small layer of each image.
ARG BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm
ARG ACCELERATOR=cuda

# Our code lies beside the packages, in a folder of its own: its layer needs no knowledge of the Python version.
FROM ${BASE_IMAGE} AS base
RUN echo 'steelyard:x:65532:' >>/etc/group && echo 'steelyard:x:65532:65532:steelyard:/tmp:/sbin/nologin' >>/etc/passwd && \
    python3 -m venv --without-pip /opt/steelyard && \
    echo /opt/steelyard/code >"$(echo /opt/steelyard/lib/python3.*/site-packages)/steelyard.pth"
ENV PATH=/opt/steelyard/bin:$PATH HOME=/tmp PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1
WORKDIR /tmp

FROM base AS tools
RUN python3 -m venv /opt/tools && /opt/tools/bin/pip install --quiet --no-cache-dir uv==0.13.9 hatchling==1.33.0 && \
    printf '#!/bin/sh\nexec %s "$@"\n' "/opt/tools/bin/uv pip install --quiet --link-mode copy --cache-dir /var/cache/uv" \
      >/opt/tools/bin/install && chmod +x /opt/tools/bin/install

# One file per image, so that a change of the lock file rebuilds only the images whose packages changed.
FROM tools AS requirements
WORKDIR /requirements
COPY pyproject.toml uv.lock ./
RUN export="/opt/tools/bin/uv export --quiet --locked --no-dev --no-emit-project --no-header" && \
    $export --output-file operator.txt && \
    for extra in worker sampler trainer; do \
      $export --extra $extra --prune kopf --prune kubernetes --output-file $extra.txt || exit; done && \
    $export --only-group nats --output-file nats.txt

FROM tools AS code
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
COPY workers workers
RUN /opt/tools/bin/python -m hatchling build --target wheel && \
    /opt/tools/bin/install --offline --no-deps --compile-bytecode --target /code dist/*.whl

FROM base AS operator-packages
COPY --from=requirements /requirements/operator.txt /opt/steelyard/requirements.txt
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools --mount=type=cache,target=/var/cache/uv \
    /opt/tools/bin/install --python /opt/steelyard --compile-bytecode --require-hashes -r /opt/steelyard/requirements.txt

FROM operator-packages AS operator
COPY --from=code /code /opt/steelyard/code
USER 65532:65532
ENTRYPOINT ["python", "-m", "steelyard"]

FROM base AS worker-packages
COPY --from=requirements /requirements/worker.txt /opt/steelyard/requirements.txt
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools --mount=type=cache,target=/var/cache/uv \
    /opt/tools/bin/install --python /opt/steelyard --compile-bytecode --require-hashes -r /opt/steelyard/requirements.txt

# /models/tiny is the 2.5 MB policy of the example, so that `kubectl apply` of it works on any cluster without a download.
FROM worker-packages AS worker
COPY e2e/models/tiny /models/tiny
COPY --from=code /code /opt/steelyard/code
USER 65532:65532
ENTRYPOINT ["python", "-m", "steelyard_workers.environment"]

# Sampler and trainer on CPU are one set of packages, hence one layer. There is no C++ compiler, so torch must not try to compile;
# pods share cores, so vLLM must neither bind its threads to some, nor spin on as many as there are, nor warm up; and its engine
# runs the model itself, for a worker process would spin for a second after every step.
FROM base AS learning-cpu
COPY requirements-cpu.txt /opt/steelyard/requirements.txt
ARG CPU_WHEELS
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools --mount=type=cache,target=/var/cache/uv \
    --mount=type=bind,from=wheels,target=/wheels \
    /opt/tools/bin/install --python /opt/steelyard --no-deps --compile-bytecode --require-hashes -r /opt/steelyard/requirements.txt && \
    /opt/tools/bin/install --python /opt/steelyard --no-deps --compile-bytecode /wheels/${CPU_WHEELS}/*.whl && \
    find /opt/steelyard/lib -name '*.so' -size +1M -path '*/vllm/*' -exec strip --strip-unneeded {} +
ENV TORCH_COMPILE_DISABLE=1 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_CPU_CI_ENV=1 VLLM_ENABLE_V1_MULTIPROCESSING=0 OMP_NUM_THREADS=1

FROM learning-cpu AS sampler-cpu

FROM learning-cpu AS trainer-cpu

# vLLM's wheel brings its attention kernels; when the engine starts, Triton builds its launchers with a C compiler against Python's
# headers, and Inductor what it leaves to the CPU with a C++ compiler. FlashInfer builds its kernels with nvcc, which is not here:
# where it is installed vLLM prefers it for attention on Blackwell and for all-reduce without asking for nvcc, so it goes, and vLLM
# takes FlashAttention, its own sampler and NCCL. A package takes long to come from a slow mirror, the largest have 600 MB.
FROM base AS sampler-cuda
RUN apt-get update && apt-get install -y --no-install-recommends g++ libc6-dev && rm -rf /var/lib/apt/lists/* && \
    test -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"
COPY --from=requirements /requirements/sampler.txt /opt/steelyard/requirements.txt
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools --mount=type=cache,target=/var/cache/uv \
    UV_HTTP_TIMEOUT=300 /opt/tools/bin/install --python /opt/steelyard --compile-bytecode --require-hashes \
      -r /opt/steelyard/requirements.txt && \
    /opt/tools/bin/uv pip uninstall --quiet --python /opt/steelyard flashinfer-python
ENV VLLM_USE_FLASHINFER_SAMPLER=0

# The trainer's attention is torch's own (scaled_dot_product_attention): nothing to build, nothing to fetch.
FROM base AS trainer-cuda
COPY --from=requirements /requirements/trainer.txt /opt/steelyard/requirements.txt
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools --mount=type=cache,target=/var/cache/uv \
    UV_HTTP_TIMEOUT=300 /opt/tools/bin/install --python /opt/steelyard --compile-bytecode --require-hashes \
      -r /opt/steelyard/requirements.txt

FROM sampler-${ACCELERATOR} AS sampler
COPY e2e/models/tiny /models/tiny
COPY --from=code /code /opt/steelyard/code
ENV HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
USER 65532:65532
ENTRYPOINT ["python", "-m", "steelyard_workers.sampler"]

FROM trainer-${ACCELERATOR} AS trainer
COPY e2e/models/tiny /models/tiny
COPY --from=code /code /opt/steelyard/code
ENV HF_HUB_OFFLINE=1 DO_NOT_TRACK=1
USER 65532:65532
ENTRYPOINT ["python", "-m", "steelyard_workers.trainer"]

FROM tools AS nats-packages
COPY --from=requirements /requirements/nats.txt /requirements.txt
RUN --mount=type=cache,target=/var/cache/uv \
    /opt/tools/bin/install --target /nats --require-hashes -r /requirements.txt

FROM scratch AS nats
COPY --from=nats-packages /nats/bin/nats-server /usr/local/bin/nats-server
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/nats-server"]
