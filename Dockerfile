# syntax=docker/dockerfile:1

FROM golang:1.26-bookworm AS build
WORKDIR /src
# For SANDBOX_DRIVER=gvisor.
COPY tools/runsc.sh tools/
RUN install -D "$(tools/runsc.sh)" /out/runsc && rm -r .cache
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# SQLite is pure Go here, so the programs need no C library.
RUN CGO_ENABLED=0 go build -trimpath -tags=nomsgpack -ldflags="-s -w" -o /out/portico ./cmd/api \
 && CGO_ENABLED=0 go build -trimpath -tags=nomsgpack -ldflags="-s -w" -o /out/sdkgen ./sdkgen

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends bash bubblewrap ca-certificates file jq libc-bin \
    poppler-data poppler-utils python3 python3-venv unzip zip \
 && rm -rf /var/lib/apt/lists/*
# Sandboxes run on a root of their own, never on this image's files.
WORKDIR /tmp/portico
COPY tools/sandbox-root.sh tools/packages.sh tools/
COPY configs/sandbox configs/sandbox
RUN tools/sandbox-root.sh /var/lib/portico/sandbox-root && rm -rf /tmp/portico
# The server must not be root: bubblewrap as root is less of a wall.
RUN useradd --system --uid 10001 --home-dir /app portico \
 && install -d -o portico /app/data
COPY --from=build /out/ /usr/local/bin/
WORKDIR /app
COPY configs/toolsets configs/toolsets
ENV SANDBOX_ROOT=/var/lib/portico/sandbox-root
USER 10001
VOLUME /app/data
EXPOSE 5800
ENTRYPOINT ["portico"]
CMD ["serve"]
