import {
  findServerContext,
  resolveContext,
  removeTrailingSlash,
  type Contexts,
  type ResolvedContext,
  type User,
} from "./contexts.ts";

/** The gateway, how it was found, and the user's credential. */
export type Gateway = {
  readonly server: string;
  readonly because: string;
  readonly credential: GatewayCredential;
  readonly authority: Authority;
  /** The namespace of jobs, for requests without a namespace. */
  readonly namespace: string;
  /** The remedy where no gateway answers. */
  readonly hint: string;
};

/** `user` is the name of a user in the file of contexts. */
export type GatewayCredential =
  | { readonly kind: "none" }
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "token-file"; readonly file: string }
  | { readonly kind: "user"; readonly name: string; readonly user: User };

/** The authority that signs the gateway's certificate. */
export type Authority =
  | { readonly kind: "system" }
  | { readonly kind: "file"; readonly file: string }
  /** The path is relative to the file of contexts. */
  | { readonly kind: "context-file"; readonly file: string }
  | { readonly kind: "data"; readonly base64: string };

export type GatewayOptions = {
  readonly server?: string | undefined;
  readonly context?: string | undefined;
  readonly natsUrl?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly certificateAuthority?: string | undefined;
};

export type GatewayVariables = {
  readonly server: string | undefined;
  readonly natsUrl: string | undefined;
  readonly token: string | undefined;
  readonly tokenFile: string | undefined;
  readonly caFile: string | undefined;
  /** True if tokens may cross a network unencrypted. */
  readonly isPlainHttpAllowed: boolean;
};

/** The default namespace, as in kubectl. */
const DEFAULT_NAMESPACE = "default";

const CHECK = "check the address, and that the gateway runs there";

/**
 * Chooses the gateway; undefined if the services are called over NATS. The command line precedes MUSTER_SERVER, then MUSTER_NATS_URL, then the current context.
 * The credential of a context is sent only to the server of that context.
 */
export function decideGateway(
  options: GatewayOptions,
  env: GatewayVariables,
  readContexts: () => Contexts,
): Gateway | { readonly problem: string; readonly hint: string } | undefined {
  if (options.server !== undefined) return ofServer(options.server, "option --server", options, env, readContexts());
  if (options.context !== undefined) {
    const known = readContexts();
    return ofContext(known, options.context, "option --context", options, env);
  }
  if (options.natsUrl !== undefined) return undefined;
  if (env.server !== undefined) return ofServer(env.server, "MUSTER_SERVER", options, env, readContexts());
  if (env.natsUrl !== undefined) return undefined;
  const known = readContexts();
  const current = known["current-context"] ?? "";
  return current === "" ? undefined : ofContext(known, current, "current context", options, env);
}

type Chosen = ReturnType<typeof decideGateway>;

function ofServer(
  server: string,
  because: string,
  options: GatewayOptions,
  env: GatewayVariables,
  known: Contexts,
): Chosen {
  if (!isGatewayAddress(server))
    return {
      problem: `"${hideUserInfo(server)}" is no address of a gateway`,
      hint: "name one such as https://muster.example.com",
    };
  return gatewayOf(server, because, options, env, findServerContext(known, server));
}

function ofContext(
  known: Contexts,
  name: string,
  because: string,
  options: GatewayOptions,
  env: GatewayVariables,
): Chosen {
  const found = resolveContext(known, name);
  if (found === undefined)
    return {
      problem: `no context ${name} with a cluster exists`,
      hint: "`muster config get-contexts` shows those that exist",
    };
  if (!isGatewayAddress(found.cluster.server))
    return {
      problem: `the server "${hideUserInfo(found.cluster.server)}" of context ${name} is no address of a gateway`,
      hint: `\`muster config set-context ${name} --server https://…\` names one`,
    };
  return gatewayOf(found.cluster.server, `${because} ${name}`, options, env, found);
}

/** Returns whether the address has the form `https://host:port`, without a user or a path. */
export function isGatewayAddress(server: string): boolean {
  return /^https?:\/\/[^/?#\s@]+\/*$/.test(server) && URL.canParse(server);
}

/** Hides the user and the password of an address in an error. */
export function hideUserInfo(server: string): string {
  return server.replace(/^([a-z]+:\/\/)?.*@/i, "$1…@");
}

/** Returns whether traffic to the address stays on this machine. */
export function isLoopback({ hostname }: URL): boolean {
  return /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])$/.test(hostname);
}

/** The remedy where an https address serves no TLS. Plain HTTP to another machine would expose the token. */
export function buildPlainServerHint(server: string): string {
  if (isLoopback(new URL(server))) return "use an address that begins with http://";
  return "check the port; the gateway, or the proxy in front of it, needs a certificate";
}

/** Returns why the token must not be sent to this server; undefined if it may be sent. */
export function findPlainHttp(
  server: string,
  because: string,
  { isPlainHttpAllowed }: Pick<GatewayVariables, "isPlainHttpAllowed">,
): { readonly problem: string; readonly hint: string } | undefined {
  if (!server.startsWith("http:") || isLoopback(new URL(server)) || isPlainHttpAllowed) return undefined;
  return {
    problem: `${describeGateway({ server, because })} has no TLS: the token would cross the network in plain text`,
    hint: "name an address with https://, or set MUSTER_PLAIN_HTTP=true where the network is trusted",
  };
}

function gatewayOf(
  server: string,
  because: string,
  options: GatewayOptions,
  env: GatewayVariables,
  context: ResolvedContext | undefined,
): Exclude<Chosen, undefined> {
  return (
    findPlainHttp(server, because, env) ?? {
      server: removeTrailingSlash(server),
      because,
      credential: credentialOf(options, env, context),
      authority: authorityOf(options, env, context),
      namespace: context?.namespace ?? DEFAULT_NAMESPACE,
      hint: CHECK,
    }
  );
}

function credentialOf(
  { tokenFile }: GatewayOptions,
  env: GatewayVariables,
  context: ResolvedContext | undefined,
): GatewayCredential {
  if (tokenFile !== undefined) return { kind: "token-file", file: tokenFile };
  if (env.token !== undefined) return { kind: "token", token: env.token };
  if (env.tokenFile !== undefined) return { kind: "token-file", file: env.tokenFile };
  return context?.user === undefined ? { kind: "none" } : { kind: "user", ...context.user };
}

function authorityOf(
  { certificateAuthority }: GatewayOptions,
  { caFile }: GatewayVariables,
  context: ResolvedContext | undefined,
): Authority {
  const file = certificateAuthority ?? caFile;
  if (file !== undefined) return { kind: "file", file };
  const data = context?.cluster["certificate-authority-data"];
  if (data !== undefined) return { kind: "data", base64: data };
  const named = context?.cluster["certificate-authority"];
  return named === undefined ? { kind: "system" } : { kind: "context-file", file: named };
}

/** Describes the server and how it was found, for people. */
export function describeGateway({ server, because }: Pick<Gateway, "server" | "because">): string {
  return `${server} (${because})`;
}

/** The error for a request that only NATS supports. */
export function needsNats(what: string): { readonly message: string; readonly hint: string } {
  return {
    message: `${what} needs NATS: the gateway does not have it`,
    hint: "name the NATS server with --nats-url or MUSTER_NATS_URL, without --server and MUSTER_SERVER",
  };
}
