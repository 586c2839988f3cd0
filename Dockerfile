# One image with every service and the command; which of them runs is said by the arguments: `docker run muster watcher/main.js`.
FROM node:24-bookworm-slim AS build
WORKDIR /source
COPY . .
# Scripts of dependencies fetch tools for development only.
RUN npm ci --ignore-scripts --no-audit --no-fund
RUN node libs/proto/generate.ts
RUN for app in apps/*/; do (cd "$app" && node ../../tools/repo/bundle.mjs && rm dist/*.map && mv dist "/source/app-$(basename "$app")") || exit 1; done \
  && mkdir /app && cp package.json /app/ && for app in app-*; do mv "$app" "/app/${app#app-}"; done

FROM node:24-bookworm-slim
WORKDIR /app
ENV NODE_ENV=production
COPY --from=build /app ./
USER node
ENTRYPOINT ["node"]
