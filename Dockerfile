# The Jackline server. docs/container.md says how to build, run and upgrade it; tests/container runs these steps.
#
# The base is pinned by tag, so that a build takes its security fixes; whoever needs the same bytes twice names a digest:
#   docker build --build-arg PYTHON=3.11-slim-bookworm@sha256:... --tag jackline .
# What is installed on it is pinned by hash, in requirements/.
ARG PYTHON=3.11-slim-bookworm


FROM python:${PYTHON} AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    UV_LINK_MODE=copy \
    UV_NO_CONFIG=1 \
    UV_PYTHON_DOWNLOADS=never \
    PIP_CACHE_DIR=/var/cache/pip \
    UV_CACHE_DIR=/var/cache/uv
WORKDIR /src

# The installer, by the hash in the lock file.
COPY requirements/ requirements/
RUN --mount=type=cache,target=/var/cache/pip \
    sed -n '/^uv==/,/[^\\]$/p' requirements/dev.txt >/tmp/uv.txt \
    && python -m venv /installer \
    && /installer/bin/python -m pip install --quiet --require-hashes --only-binary :all: -r /tmp/uv.txt

# What the server needs, all of it by hash and nothing from source. Bytecode is made here, since the root of a running
# container can't be written. Nothing there changes, so that it is taken without a look at its source, whose times copies
# and layers may alter.
RUN --mount=type=cache,target=/var/cache/uv \
    /installer/bin/uv venv --quiet --python python /opt/jackline \
    && /installer/bin/uv pip install --quiet --python /opt/jackline --require-hashes --no-deps --only-binary :all: \
       -r requirements/server.txt \
    && /opt/jackline/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/jackline/lib >/dev/null

# Jackline itself, as the wheel that is published.
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY proto/ proto/
COPY client/python/ client/python/
COPY server/ server/
RUN --mount=type=cache,target=/var/cache/uv \
    /installer/bin/uv build --quiet --wheel --require-hashes --build-constraints requirements/build.txt --out-dir /dist \
    && /installer/bin/uv pip install --quiet --python /opt/jackline --no-index --no-deps /dist/*.whl \
    && /installer/bin/uv pip check --quiet --python /opt/jackline \
    && /opt/jackline/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
       /opt/jackline/lib/python3.*/site-packages/jackline* >/dev/null \
    && mkdir -m 0700 /volume


FROM python:${PYTHON} AS runtime

LABEL org.opencontainers.image.title="jackline" \
      org.opencontainers.image.description="Hosts bounded, steerable, durable LLM agent loops behind a gRPC contract." \
      org.opencontainers.image.licenses="Apache-2.0"

RUN groupadd --gid 10001 jackline \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin jackline

COPY --from=build /opt/jackline /opt/jackline
# A new volume takes over the owner and the mode of the folder it is mounted on.
COPY --from=build --chown=10001:10001 /volume /var/lib/jackline

# Everything that is kept is below the volume: runs in data/, the token of the first start in state/.
ENV PATH="/opt/jackline/bin:${PATH}" \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    JACKLINE_DATA=/var/lib/jackline/data \
    JACKLINE_STATE_DIR=/var/lib/jackline/state \
    JACKLINE_LISTEN=0.0.0.0:50051
WORKDIR /var/lib/jackline
VOLUME ["/var/lib/jackline"]
EXPOSE 50051
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 CMD ["jackline", "health"]
# No `serve` without a word about the network: beyond the loopback it wants --insecure-bind, or ends with 2 and says why.
ENTRYPOINT ["jackline"]
CMD ["serve"]
