/** Clusters, users and contexts in the form of a kubeconfig. */
export type Contexts = {
  readonly "current-context"?: string | undefined;
  readonly clusters: readonly { readonly name: string; readonly cluster: Cluster }[];
  readonly users: readonly { readonly name: string; readonly user: User }[];
  readonly contexts: readonly { readonly name: string; readonly context: Context }[];
};

export type Cluster = {
  /** The address of the gateway: `https://muster.example.com`. */
  readonly server: string;
  /** The path of a certificate file. */
  readonly "certificate-authority"?: string | undefined;
  /** The certificate in base64. */
  readonly "certificate-authority-data"?: string | undefined;
};

export type User = {
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly exec?: Exec | undefined;
  readonly "auth-provider"?: OidcProvider | undefined;
};

/** A program that prints an ExecCredential of client.authentication.k8s.io. */
export type Exec = {
  readonly apiVersion: string;
  readonly command: string;
  readonly args?: readonly string[] | null | undefined;
  readonly env?: readonly { readonly name: string; readonly value: string }[] | null | undefined;
};

export type OidcProvider = { readonly name: "oidc"; readonly config: OidcConfig };

export type OidcConfig = {
  readonly "idp-issuer-url": string;
  readonly "client-id": string;
  readonly "client-secret"?: string | undefined;
  readonly "id-token"?: string | undefined;
  readonly "refresh-token"?: string | undefined;
};

export type Context = {
  readonly cluster: string;
  readonly user?: string | undefined;
  /** The namespace of jobs. */
  readonly namespace?: string | undefined;
};

export const NO_CONTEXTS: Contexts = { clusters: [], users: [], contexts: [] };

/** A context with its cluster and its user. `user` is undefined if the context has none. */
export type ResolvedContext = {
  readonly name: string;
  readonly cluster: Cluster;
  readonly user: { readonly name: string; readonly user: User } | undefined;
  readonly namespace: string | undefined;
};

/** Returns the context of this name; undefined if it or its cluster is missing. */
export function resolveContext(all: Contexts, name: string): ResolvedContext | undefined {
  const context = all.contexts.find((each) => each.name === name)?.context;
  const cluster = all.clusters.find((each) => each.name === context?.cluster)?.cluster;
  if (context === undefined || cluster === undefined) return undefined;
  const user = all.users.find((each) => each.name === context.user);
  return { name, cluster, user, namespace: context.namespace };
}

/** Finds the context whose gateway has this address; the current one first. */
export function findServerContext(all: Contexts, server: string): ResolvedContext | undefined {
  const names = [all["current-context"] ?? "", ...all.contexts.map(({ name }) => name)];
  const found = names.map((name) => resolveContext(all, name));
  return found.find(
    (each) => each !== undefined && removeTrailingSlash(each.cluster.server) === removeTrailingSlash(server),
  );
}

/** Removes trailing slashes, so that a path can be appended to the address. */
export function removeTrailingSlash(server: string): string {
  return server.replace(/\/+$/, "");
}

/** Replaces the entry of the same name, or appends this one. */
export function putNamed<Entry extends { readonly name: string }>(
  entries: readonly Entry[],
  entry: Entry,
): readonly Entry[] {
  const isKnown = entries.some(({ name }) => name === entry.name);
  return isKnown ? entries.map((each) => (each.name === entry.name ? entry : each)) : [...entries, entry];
}
