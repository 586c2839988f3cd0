# One image for each service, for the command and for the embedded cluster: docker build --build-arg APP=watcher --tag muster/watcher .
# `npm run images` builds them all; everything before the last stage is the same for all, and comes from the cache after the first.
ARG NODE_IMAGE=node:24-bookworm-slim

# What decides which packages are installed, and nothing else, so that a change of a source file installs nothing anew.
FROM ${NODE_IMAGE} AS manifests
COPY . /source
RUN find /source -type f ! -name package.json ! -name package-lock.json -delete && find /source -type d -empty -delete

FROM ${NODE_IMAGE} AS build
WORKDIR /source
COPY --from=manifests /source ./
# Scripts of dependencies fetch tools for development only, and so do most dependencies.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
COPY . .
RUN node libs/proto/generate.ts && node tools/repo/image-contents.ts /images

FROM ${NODE_IMAGE}
ARG APP
# Only the gateway reads the folder of the console. The last three limit the memory of a service: docs/performance/sessions.md.
ENV NODE_ENV=production \
  GATEWAY_CONSOLE_DIR=/app/console \
  MALLOC_ARENA_MAX=1 \
  MALLOC_TRIM_THRESHOLD_=131072 \
  NODE_OPTIONS="--expose-gc --max-semi-space-size=8"
WORKDIR /app
# Fails where APP names none of them.
COPY --from=build /images/${APP}/ /
USER node
# Of a service it says no more than /livez does; Kubernetes asks that itself.
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=6 CMD ["node", "/app/health-check.ts"]
ENTRYPOINT ["node", "/app/main.js"]
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="muster/${APP}" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.source="${SOURCE}" \
  org.opencontainers.image.licenses="Apache-2.0"
