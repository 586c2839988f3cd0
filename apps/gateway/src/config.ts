import { isIP } from "node:net";
import { readNatsAccess, type NatsAccess, type RequestRate } from "@muster/bus";
import { readEnv, type EnvReader } from "@muster/service";

export type Config = {
  readonly nats: NatsAccess;
  readonly http: HttpConfig;
  /** Undefined without a local token. */
  readonly tokenFile: string | undefined;
  /** Undefined without a cluster; only the owner of the local token then has rights. */
  readonly kube: KubeConfiguration | undefined;
  /** Undefined without an issuer. */
  readonly oidc: OidcConfig | undefined;
  readonly namespace: string;
  /** The rate of one user. */
  readonly rate: RequestRate;
  /** The rate of one address. */
  readonly failedTokenRate: RequestRate;
  readonly callTimeoutMs: number;
  readonly streams: StreamConfig;
  readonly console: ConsoleConfig;
};

/** The web console and the sessions of its browsers. */
export type ConsoleConfig = {
  /** Undefined selects the build of apps/console. */
  readonly directory: string | undefined;
  /** Undefined selects a random key for each start. */
  readonly sessionKeyFile: string | undefined;
  readonly maxSessionMs: number;
  /** Undefined if pages show no links to traces. */
  readonly jaegerUrl: string | undefined;
};

/** The limits of watches and logs. */
export type StreamConfig = {
  readonly maxStreams: number;
  readonly maxUserStreams: number;
  readonly stallMs: number;
  readonly recheckMs: number;
  readonly pollMs: number;
  readonly maxWatchedBytes: number;
};

export type OidcConfig = {
  readonly issuer: string;
  /** The audience that tokens must have. */
  readonly audience: string;
  readonly userClaim: string;
  readonly groupsClaim: string;
  /** The prefix of the names of users and groups. */
  readonly prefix: string;
  /** Undefined for a public client. */
  readonly clientSecretFile: string | undefined;
  /** The scope that a browser requests from the issuer. */
  readonly scope: string;
};

export type KubeConfiguration = { readonly file: string | undefined; readonly audience: string | undefined };

export type HttpConfig = {
  readonly host: string;
  readonly port: number;
  /** Undefined selects HTTP/1.1 without encryption. */
  readonly tls: { readonly certFile: string; readonly keyFile: string; readonly checkMs: number } | undefined;
  /** Addresses and ranges of proxies whose `X-Forwarded-For` names the client. */
  readonly trustedProxies: readonly string[];
  readonly limits: HttpLimits;
};

export type HttpLimits = {
  readonly maxBodyBytes: number;
  readonly maxRequests: number;
  readonly maxConnections: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
};

const ADDRESS = {
  fallback: "127.0.0.1:8480",
  pattern: /^([^\s:/]+|\[[0-9a-fA-F:]+\]):\d{1,5}$/,
  needed: "host:port is needed, such as 0.0.0.0:8480",
};
const LOOPBACK = /^(127\.\d+\.\d+\.\d+|localhost|::1|\[::1\])$/;

/** Returns whether only this machine reaches the host, which may be in brackets as in a URL. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

/** Reads the configuration; throws one fault that names every problem. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  return readEnv(env, (read) => {
    const kube = readKube(read);
    const oidc = readOidc(read, kube !== undefined);
    return {
      nats: readNatsAccess(read),
      http: readHttp(read),
      tokenFile: readTokenFile(read, kube !== undefined),
      kube,
      oidc,
      /** Namespace in which the rights on sessions, replica sets, leases and reservations are asked for. */
      namespace: read.text("MUSTER_NAMESPACE", "default"),
      rate: {
        /** Rate limit of one user at one process. */
        perSecond: read.integer("GATEWAY_REQUESTS_PER_SECOND", { fallback: 50, min: 1, max: 100_000 }),
        /** Requests that one user may send in a burst. */
        burst: read.integer("GATEWAY_REQUESTS_BURST", { fallback: 200, min: 1, max: 1_000_000 }),
      },
      failedTokenRate: {
        /** Unknown or expired tokens that one address may send in a minute to one process. */
        perSecond: read.integer("GATEWAY_FAILED_TOKENS_PER_MINUTE", { fallback: 30, min: 1, max: 100_000 }) / 60,
        /** Unknown or expired tokens that one address may send in a burst. */
        burst: read.integer("GATEWAY_FAILED_TOKENS_BURST", { fallback: 20, min: 1, max: 100_000 }),
      },
      /** Time limit of one call of a service. */
      callTimeoutMs: read.integer("GATEWAY_CALL_TIMEOUT_MS", { fallback: 10_000, min: 100, max: 60_000 }),
      streams: {
        /** Maximum concurrent watches and logs. */
        maxStreams: read.integer("GATEWAY_STREAMS_MAX", { fallback: 2000, min: 1, max: 100_000 }),
        /** Maximum concurrent watches and logs of one user. */
        maxUserStreams: read.integer("GATEWAY_USER_STREAMS_MAX", { fallback: 100, min: 1, max: 100_000 }),
        /** A client that reads nothing of a stream for so long is disconnected. */
        stallMs: read.integer("GATEWAY_STREAM_STALL_MS", { fallback: 30_000, min: 100, max: 600_000 }),
        /** Interval at which the token and the right of a stream are checked again. */
        recheckMs: read.integer("GATEWAY_STREAM_CHECK_MS", { fallback: 10_000, min: 100, max: 600_000 }),
        /** Maximum interval at which a list that is watched is read. One that changes is read more often. */
        pollMs: read.integer("GATEWAY_WATCH_POLL_MS", { fallback: 1000, min: 10, max: 60_000 }),
        /** Maximum bytes of all lists that are watched, as JSON. The process needs about six times as much memory for them. One user has two thirds of it. */
        maxWatchedBytes: read.integer("GATEWAY_WATCHED_BYTES_MAX", {
          fallback: 100_663_296,
          min: 1_048_576,
          max: 17_179_869_184,
        }),
      },
      console: readConsole(read),
    };
  });
}

function readConsole(read: EnvReader): ConsoleConfig {
  return {
    /** Folder with the files of the web console. Without it, the build of apps/console. */
    directory: read.optional("GATEWAY_CONSOLE_DIR"),
    /** File with keys that encrypt sessions of browsers, one a line. Every replica needs the same. Without it, a start ends the sessions before it. */
    sessionKeyFile: read.optional("GATEWAY_SESSION_KEY_FILE"),
    /** Maximum life of a session. One whose token expires earlier ends with it. */
    maxSessionMs: read.integer("GATEWAY_SESSION_MS", { fallback: 43_200_000, min: 1000, max: 2_592_000_000 }),
    jaegerUrl: readJaegerUrl(read),
  };
}

function readJaegerUrl(read: EnvReader): string | undefined {
  /** Address of the Jaeger that browsers reach, for links to traces. */
  const url = read.optional("GATEWAY_JAEGER_URL");
  return url === undefined ? undefined : read.httpUrl("GATEWAY_JAEGER_URL");
}

function readKube(read: EnvReader): KubeConfiguration | undefined {
  /** Kubeconfig file of the cluster that knows tokens and rights. Without it, the cluster that the gateway runs in, or none. */
  const file = read.optional("MUSTER_KUBECONFIG");
  /** Kubernetes sets it in every pod: the gateway runs in a cluster. */
  const inCluster = read.optional("KUBERNETES_SERVICE_HOST") !== undefined;
  /** Audience that tokens of Kubernetes must have. Without it, that of the API server. */
  const audience = read.optional("GATEWAY_TOKEN_AUDIENCE");
  return file === undefined && !inCluster ? undefined : { file, audience };
}

function readTokenFile(read: EnvReader, hasCluster: boolean): string | undefined {
  /** File with the token of its owner, who may do everything. The first start makes it, readable only by its owner. Required without a cluster. */
  const file = read.optional("GATEWAY_TOKEN_FILE");
  return file === undefined && !hasCluster ? read.text("GATEWAY_TOKEN_FILE") : file;
}

/** The pattern of an id, a claim or a prefix, without spaces. */
const WORD = { pattern: /^\S{1,200}$/, needed: "up to 200 characters without spaces are needed" };

const SCOPE = {
  fallback: "openid profile email",
  pattern: /^(?=.*\bopenid\b)[!-~ ]{1,500}$/,
  needed: "words with spaces between them are needed, one of them openid",
};

function readOidc(read: EnvReader, hasCluster: boolean): OidcConfig | undefined {
  /** Issuer of OpenID Connect tokens, as it names itself. It needs TLS, except on loopback, and a cluster that knows the rights. */
  if (read.optional("GATEWAY_OIDC_ISSUER_URL") === undefined) return undefined;
  const issuer = read.httpUrl("GATEWAY_OIDC_ISSUER_URL");
  const url = URL.parse(issuer);
  if (url?.protocol === "http:" && !isLoopback(url.hostname))
    read.matching("GATEWAY_OIDC_ISSUER_URL", { pattern: /^https:/, needed: "https is needed" });
  // Rights need a cluster: the reader reports the missing variable with the other problems.
  if (!hasCluster) read.text("MUSTER_KUBECONFIG");
  return {
    issuer,
    /** Client id of Muster at the issuer; tokens must be meant for it. */
    audience: read.matching("GATEWAY_OIDC_CLIENT_ID", WORD),
    /** Claim with the name of the user; `email` counts only if the issuer has verified it. */
    userClaim: read.matching("GATEWAY_OIDC_USERNAME_CLAIM", { ...WORD, fallback: "sub" }),
    /** Claim with the groups of the user. */
    groupsClaim: read.matching("GATEWAY_OIDC_GROUPS_CLAIM", { ...WORD, fallback: "groups" }),
    /** Begins the names of users and groups in roles, so that the issuer cannot name those of Kubernetes. */
    prefix: read.matching("GATEWAY_OIDC_PREFIX", { ...WORD, fallback: "oidc:" }),
    /** File with the secret of the client. Without it, a browser signs in with PKCE alone. */
    clientSecretFile: read.optional("GATEWAY_OIDC_CLIENT_SECRET_FILE"),
    /** Scopes that a browser asks the issuer for. */
    scope: read.matching("GATEWAY_OIDC_SCOPE", SCOPE),
  };
}

function readHttp(read: EnvReader): HttpConfig {
  /** Address of the API. Port 0: any free port. */
  const address = read.matching("GATEWAY_ADDR", ADDRESS);
  const colon = address.lastIndexOf(":");
  const host = address.slice(0, colon).replaceAll(/[[\]]/g, "");
  const tls = readTls(read);
  /** `true`: serve other hosts without TLS, behind a proxy that has it. Tokens cross the network in plain text. */
  const isPlainAllowed = read.flag("GATEWAY_PLAIN_HTTP", false);
  if (tls === undefined && !isPlainAllowed && !isLoopback(host))
    // The certificate is missing: the reader reports it with the other problems.
    read.matching("GATEWAY_ADDR", {
      pattern: /^$/,
      needed:
        "for other hosts, GATEWAY_TLS_CERT_FILE and GATEWAY_TLS_KEY_FILE are needed, or GATEWAY_PLAIN_HTTP=true behind a proxy with TLS",
    });
  return {
    host,
    port: Number(address.slice(colon + 1)),
    tls,
    trustedProxies: readProxies(read),
    limits: {
      /** Maximum size of one request body. */
      maxBodyBytes: read.integer("GATEWAY_BODY_BYTES_MAX", { fallback: 1_048_576, min: 1024, max: 67_108_864 }),
      /** Maximum concurrent requests. */
      maxRequests: read.integer("GATEWAY_REQUESTS_MAX", { fallback: 512, min: 1, max: 100_000 }),
      /** Maximum open connections. */
      maxConnections: read.integer("GATEWAY_CONNECTIONS_MAX", { fallback: 4096, min: 1, max: 100_000 }),
      /** Time in which a client must complete its TLS handshake, and then send the headers of a request. */
      headersTimeoutMs: read.integer("GATEWAY_HEADERS_TIMEOUT_MS", { fallback: 10_000, min: 100, max: 600_000 }),
      /** Time in which a client must send a whole request, and read a whole answer. */
      requestTimeoutMs: read.integer("GATEWAY_REQUEST_TIMEOUT_MS", { fallback: 30_000, min: 100, max: 600_000 }),
    },
  };
}

function readProxies(read: EnvReader): readonly string[] {
  /** Addresses and CIDR ranges of proxies, separated by commas. Their `X-Forwarded-For` names the client in audit events and limits. */
  const text = read.optional("GATEWAY_TRUSTED_PROXIES");
  const proxies = text?.split(",").map((each) => each.trim()) ?? [];
  if (!proxies.every(isNetwork))
    read.matching("GATEWAY_TRUSTED_PROXIES", {
      pattern: /^$/,
      needed: "addresses or CIDR ranges, separated by commas, are needed, such as 10.1.0.0/16,fd00::1",
    });
  return proxies;
}

function isNetwork(text: string): boolean {
  const [address = "", bits, ...more] = text.split("/");
  const family = isIP(address);
  const maxBits = family === 4 ? 32 : 128;
  return (
    family !== 0 && more.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= maxBits))
  );
}

function readTls(read: EnvReader): HttpConfig["tls"] {
  /** Certificate of the API, in PEM form; with it the API has TLS and HTTP/2. */
  const certFile = read.optional("GATEWAY_TLS_CERT_FILE");
  /** Key of the certificate. */
  const keyFile = read.optional("GATEWAY_TLS_KEY_FILE");
  if (certFile === undefined && keyFile === undefined) return undefined;
  return {
    certFile: read.text("GATEWAY_TLS_CERT_FILE"),
    keyFile: read.text("GATEWAY_TLS_KEY_FILE"),
    /** Interval at which both files are read again, for a renewed certificate. */
    checkMs: read.integer("GATEWAY_TLS_CHECK_MS", { fallback: 60_000, min: 10, max: 86_400_000 }),
  };
}
