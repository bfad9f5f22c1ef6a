# skillserve over streamable HTTP:
#
#   docker build -t skillserve .
#   docker run --rm --read-only -p 127.0.0.1:8000:8000 -e SKILLSERVE_ALLOWED_HOSTS=localhost \
#     -v "$PWD/sample_skills:/skills:ro" skillserve
#
# deploy/ has compose files, manifests and a chart for a team.

# One base for both stages: a virtual environment points at the interpreter that made it.
FROM python:3.13-slim AS base


FROM base AS builder

# Nothing that pip would keep for a next time leaves this stage.
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY constraints.txt pyproject.toml ./

# pip and the build backend live in an environment of their own, so that the one that ships holds neither.
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --quiet --only-binary :all: --constraint constraints.txt hatchling \
    && python -m venv --without-pip /opt/skillserve

# The dependencies come before the code: after an edit of the code this layer is taken from the cache. Wheels only,
# because there is no compiler here, and so that no dependency runs code of its own while it is installed. With the
# extras that a server can use: runs, histories, and what several servers of a team need.
RUN /opt/skillserve/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*project["dependencies"], *(each for extra in ("run", "history", "team") for each in project["optional-dependencies"][extra]), sep="\n")' > requirements.txt \
    && /opt/build/bin/pip --python /opt/skillserve install --quiet --no-compile --only-binary :all: \
        --constraint constraints.txt --requirement requirements.txt

# Bytecode is made here, once, and never compared with its source: nothing can write it at run time.
COPY LICENSE README.md ./
COPY server server
COPY skills_core skills_core
RUN /opt/build/bin/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist . \
    && /opt/build/bin/pip --python /opt/skillserve install --quiet --no-compile --no-deps dist/*.whl \
    && /opt/skillserve/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/skillserve/lib


FROM base

LABEL org.opencontainers.image.title="skillserve" \
    org.opencontainers.image.description="The reference server for Agent Skills over MCP" \
    org.opencontainers.image.licenses="MIT"

COPY --from=builder /opt/skillserve /opt/skillserve
ENV PATH=/opt/skillserve/bin:$PATH

# An empty folder of skills lets a start without a volume work. The state folder is open to every user, like /tmp, because
# the image does not know the number of the user that it will run as.
# The base image has no bytecode of the standard library: importing what the server imports makes the part it needs.
RUN mkdir /skills \
    && mkdir -m 1777 /state \
    && python -c 'import server.cli.app, server.transport.http, server.transport.serving, server.transport.stdio, urllib.request'

# From here on the root file system may be read-only, and logs are seen as they are written. Tokens, the audit log and
# runs are kept in /state. The catalog does not follow use, so that it is the same at all replicas. How the server is
# reached is set here and not in the command, so that `skillserve config check` in a container sees it. A client that
# starts a container over stdio does not have its disk, so no folder of a skill is named to it.
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SKILLSERVE_SKILL_FOLDER=never \
    SKILLSERVE_USAGE=false \
    SKILLSERVE_TRANSPORT=http \
    SKILLSERVE_HOST=0.0.0.0 \
    XDG_STATE_HOME=/state

# Mount your settings at /etc/skillserve/skillserve.toml. That is not in /skills, so that skills cannot change settings.
ENV XDG_CONFIG_HOME=/etc
WORKDIR /etc/skillserve

# A number, because Kubernetes' runAsNonRoot cannot look up a name. It owns no file of the image; the files below
# /skills must be readable by it, or the container be given the number of their owner (--user).
USER 65532:65532

VOLUME ["/skills", "/state"]
EXPOSE 8000

# Healthy is a server that has its first catalog and is not about to stop. The server's own interpreter asks, past any
# proxy that the environment names. (With --transport stdio nothing listens: add --no-healthcheck.)
HEALTHCHECK --interval=15s --timeout=5s --start-period=15s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as request; port = os.environ.get('SKILLSERVE_PORT', '8000'); request.build_opener(request.ProxyHandler({})).open(f'http://127.0.0.1:{port}/ready', timeout=4)"]

ENTRYPOINT ["skillserve"]
# 0.0.0.0 is the container's own network: what is published of it, and to whom, is for -p to say. Hence --insecure; a flag
# of this command, so that a container with another one does not start without a login.
CMD ["serve", "/skills", "--insecure"]
