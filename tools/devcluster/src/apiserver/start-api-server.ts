import { randomInt, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:https";
import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { join } from "node:path";
import { makeAccountTokens } from "./access/account-tokens.ts";
import { buildAttributes } from "./access/attributes.ts";
import { findGrant, describeRefusal, type RoleBook } from "./access/decide-access.ts";
import { makeRoleBook } from "./access/role-book.ts";
import { ADMIN, type User } from "./access/user.ts";
import { answerError, answerFailure, answerText, type HttpExchange, type Tunnel } from "./answer.ts";
import { getBearer, isAuthorized } from "./authenticate.ts";
import { type Certificate, signLoopbackServer } from "./certificates.ts";
import { startClaimProtection } from "./claim-protection.ts";
import type { ClusterApi } from "../cluster-api.ts";
import { startCollector } from "./collector.ts";
import { buildCredentialsPath, keepCredentials, makeCredentials } from "./credentials.ts";
import { listCustomResources, startDefinitions } from "./custom/definitions.ts";
import { startDisruptionController } from "./disruption-controller.ts";
import { serveDocument } from "./documents.ts";
import { openJournal } from "./journal.ts";
import { namespaces } from "./kinds/core.ts";
import { type KubeletAccess, makeKubeletClient } from "./kubelet-request.ts";
import { makeLocalApi } from "./local-api.ts";
import { refuseByQuota, startQuotaController } from "./quota-controller.ts";
import { openRegistry as makeRegistry, type Registry, type RegistryDeps } from "./registry.ts";
import { type Catalogue, makeCatalogue } from "./resources.ts";
import { type RestDeps, serveTarget } from "./rest.ts";
import { unauthorized } from "./status.ts";
import { makeObjectStore } from "./store.ts";
import { parseTarget } from "./target.ts";
import { type WatchLimits, startWatches as makeWatches } from "./watch.ts";
import { startWorkloadController } from "./workloads/workload-controller.ts";
import { writeKubeconfig } from "./write-kubeconfig.ts";

export type ApiServerOptions = {
  /** Directory for the kubeconfig, mode 0600. */
  readonly directory: string;
  /**
   * Keep objects, revisions and credentials in the folder `state` of the directory, and start from its contents. Set a port too, so clients find the
   * server after a restart.
   */
  readonly persist?: boolean;
  /** Default 0: any free port. */
  readonly port?: number;
  /** Name for access from other machines: the server then listens on all addresses instead of only 127.0.0.1. */
  readonly host?: string;
  /** Token with all rights; by default a random one. */
  readonly token?: string;
  /** Credentials between server and kubelets, for logs; default the credentials in `kubelet` of the result. */
  readonly kubelet?: KubeletAccess;
  readonly now?: () => number;
  /** Maximum changes in the history of each resource; older versions are answered with 410. Default 1000. */
  readonly historyLimit?: number;
  readonly watchLimits?: Partial<WatchLimits>;
  /** Receives defects of the server; clients get 500. */
  readonly onError?: (error: unknown) => void;
};

export type ApiServer = AsyncDisposable & {
  /** `https://127.0.0.1:port`. */
  readonly url: string;
  readonly port: number;
  /** Path of the kubeconfig file. */
  readonly kubeconfig: string;
  readonly token: string;
  /** PEM of the authority of the server's certificate. */
  readonly ca: string;
  /** For a kubelet of this cluster: the token that the server sends to it, and a certificate that the server accepts. */
  readonly kubelet: { readonly token: string; readonly certificate: Certificate };
  /** The server for this process, without connections. */
  readonly api: ClusterApi;
  openWatches(): number;
  /** Cuts off every open watch, as a broken connection would. */
  closeWatches(): void;
  /** Forgets all history: an earlier resource version gets 410. */
  expireHistory(): void;
};

/**
 * The timeout of kube-apiserver. With Node's five seconds, every heartbeat of every node needed a TLS handshake, and a request sent at the moment of the
 * timeout was reset.
 */
const IDLE_CONNECTION_MS = 90_000;

const HISTORY_LIMIT = 1000;
const EVENT_TTL_MS = 3_600_000;
const FIRST_NAMESPACES = ["default", "kube-node-lease", "kube-public", "kube-system"];
const HEALTH_PATHS = ["/healthz", "/livez", "/readyz"];
const WATCH_LIMITS: WatchLimits = {
  maxWatches: 1000,
  backlogMaxBytes: 16 * 1024 * 1024,
  bookmarkEveryMs: 60_000,
  timeoutMaxMs: 3_600_000,
};

/** Starts a Kubernetes API server, and resolves once it answers. */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const nowMs = options.now ?? Date.now;
  const onDefect = options.onError ?? (() => undefined);
  const state = join(options.directory, "state");
  await using started = new AsyncDisposableStack();
  const persist = options.persist === true;
  const journal = persist ? started.use(openJournal({ directory: state, onProblem: onDefect })) : undefined;
  const { authority, ...secrets } = persist
    ? await keepCredentials(buildCredentialsPath(options.directory), nowMs())
    : await makeCredentials();
  const token = options.token ?? secrets.token;
  const [certificate, kubeletCertificate] = await Promise.all([
    signLoopbackServer(authority, "kube-apiserver", options.host),
    signLoopbackServer(authority, "kubelet"),
  ]);
  const kubelet = options.kubelet ?? { token: secrets.kubeletToken, ca: authority.cert };
  const store = makeObjectStore({ historyLimit: options.historyLimit ?? HISTORY_LIMIT, journal });
  const served = makeCatalogue(listCustomResources(store));
  const random = (below: number): number => randomInt(Math.max(1, Math.floor(below)));
  const refuse: RegistryDeps["refuse"] = (resource, namespace, object) =>
    refuseByQuota({ store, kinds: served.all }, namespace, { resource, object });
  const registry = makeRegistry({ store, nowMs, newUid: randomUUID, random, refuse });
  const watches = makeWatches({ store, nowMs, random, limits: { ...WATCH_LIMITS, ...options.watchLimits } });
  createFirstNamespaces(registry);
  started.use(startControllers(served, { store, registry, nowMs, onDefect }));
  const tokens = makeAccountTokens({ key: secrets.token, find: registry.find, nowMs });
  const kubelets = started.use(makeKubeletClient(kubelet));
  const deps: RestDeps = { registry, store, watches, nowMs, kubelet: kubelets, tokens };
  const guard: Guard = { token, book: makeRoleBook(store), onDefect, catalogue: served };
  const server = createServer({ ...certificate, minVersion: "TLSv1.2" }, (request, response) => {
    serve(deps, guard, { request, response }).catch(onDefect);
  });
  server.keepAliveTimeout = IDLE_CONNECTION_MS;
  const tunnels = new Set<Socket>();
  server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    tunnels.add(socket);
    socket.once("close", () => tunnels.delete(socket));
    serve(deps, guard, answerUpgrade(request, socket, head)).catch(onDefect);
  });
  const port = await listen(server, options.port ?? 0, options.host === undefined ? "127.0.0.1" : "0.0.0.0");
  started.defer(async () => {
    const closed = once(server, "close");
    server.close();
    watches.close();
    for (const socket of tunnels) socket.destroy();
    server.closeAllConnections();
    await closed;
  });
  const url = `https://127.0.0.1:${port}`;
  const kubeconfig = join(options.directory, "kubeconfig");
  await writeKubeconfig(kubeconfig, { url, ca: authority.cert, token });
  const all = started.move();
  return {
    url,
    port,
    kubeconfig,
    token,
    ca: authority.cert,
    kubelet: { token: kubelet.token, certificate: kubeletCertificate },
    api: makeLocalApi({ registry, store, catalogue: served, nowMs }),
    openWatches: watches.count,
    closeWatches: watches.close,
    expireHistory: store.expireHistory,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function createFirstNamespaces(registry: Registry): void {
  for (const name of FIRST_NAMESPACES) {
    const exists = registry.find({ resource: namespaces, namespace: "", name }) !== undefined;
    if (!exists) registry.create(namespaces, "", { metadata: { name } }, false);
  }
}

type ControllerDeps = Pick<RestDeps, "store" | "registry" | "nowMs"> & Pick<Guard, "onDefect">;

/** Starts the controllers that kube-controller-manager runs in a cluster. */
function startControllers(served: Catalogue, deps: ControllerDeps): DisposableStack {
  const started = new DisposableStack();
  started.use(startCollector({ ...deps, catalogue: served, policy: { eventTtlMs: EVENT_TTL_MS } }));
  started.use(startDefinitions(deps));
  started.use(startDisruptionController(deps));
  started.use(startQuotaController({ ...deps, kinds: served.all }));
  started.use(startClaimProtection(deps));
  started.use(startWorkloadController(deps));
  return started;
}

type Guard = {
  readonly token: string;
  readonly book: RoleBook;
  readonly onDefect: (error: unknown) => void;
  readonly catalogue: Catalogue;
};

type Asked = Pick<HttpExchange, "request" | "response" | "tunnel">;

/** Answers an upgrade request like any other, unless its answer opens a tunnel. */
function answerUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): Asked {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once("finish", () => socket.end());
  socket.on("error", () => socket.destroy());
  const tunnel: Tunnel = { socket, head, open: () => response.detachSocket(socket) };
  const isWebSocket = request.headers.upgrade?.toLowerCase() === "websocket";
  return { request, response, tunnel: isWebSocket ? tunnel : undefined };
}

async function serve(deps: RestDeps, guard: Guard, asked: Asked): Promise<void> {
  const { request, response } = asked;
  const { pathname, searchParams } = parseUrl(request.url ?? "/");
  const exchange: HttpExchange = { ...asked, path: pathname, query: searchParams };
  response.on("error", () => request.destroy());
  try {
    if (HEALTH_PATHS.includes(pathname)) {
      answerText(exchange, 200, "ok");
      return;
    }
    const identify = (token: string): User | undefined => authenticate(deps, guard, `Bearer ${token}`);
    const user = identify(getBearer(request.headers.authorization));
    if (user === undefined) {
      answerFailure(exchange, unauthorized());
      return;
    }
    const attributes = buildAttributes(request.method ?? "", pathname, searchParams);
    if (findGrant(user, attributes, guard.book) === undefined) {
      answerFailure(exchange, describeRefusal(user, attributes));
      return;
    }
    const target = parseTarget(pathname, guard.catalogue);
    if (target !== undefined)
      await serveTarget(deps, exchange, { target, asker: { user, book: guard.book, identify } });
    else serveDocument(exchange, guard.catalogue);
  } catch (error) {
    answerError(exchange, error, guard.onDefect);
  } finally {
    // An unread body is drained, so that the connection can be reused.
    request.resume();
  }
}

function authenticate({ tokens }: RestDeps, { token }: Guard, header: string | undefined): User | undefined {
  return isAuthorized(header, token) ? ADMIN : tokens.verify(getBearer(header));
}

/** Parses any request target to some path. */
function parseUrl(target: string): URL {
  const base = "https://127.0.0.1";
  return target.startsWith("/") && URL.canParse(base + target) ? new URL(base + target) : new URL("/invalid", base);
}

async function listen(server: Server, port: number, address: string): Promise<number> {
  server.listen(port, address);
  await once(server, "listening");
  const bound = server.address();
  return typeof bound === "object" && bound !== null ? bound.port : port;
}
