import { readNatsAccess, type NatsAccess } from "@muster/bus";
import { readEnv, type EnvReader } from "@muster/service";

export type Config = {
  readonly nats: NatsAccess;
  readonly http: HttpConfig;
  readonly tokenFile: string;
  readonly callTimeoutMs: number;
};

export type HttpConfig = {
  readonly host: string;
  readonly port: number;
  /** Undefined: HTTP/1.1 in plain text. */
  readonly tls: { readonly certFile: string; readonly keyFile: string } | undefined;
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
const LOOPBACK = /^(127\.\d+\.\d+\.\d+|localhost|::1)$/;

/** Reads the configuration; throws one fault that names every problem. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  return readEnv(env, (read) => ({
    nats: readNatsAccess(read),
    http: readHttp(read),
    /** File with the token of its owner, who may do everything. The first start makes it, readable only by its owner. */
    tokenFile: read.text("GATEWAY_TOKEN_FILE"),
    /** Time limit of one call of a service. */
    callTimeoutMs: read.integer("GATEWAY_CALL_TIMEOUT_MS", { fallback: 10_000, min: 100, max: 60_000 }),
  }));
}

function readHttp(read: EnvReader): HttpConfig {
  /** Address of the API. Port 0: any free port. */
  const address = read.matching("GATEWAY_ADDR", ADDRESS);
  const colon = address.lastIndexOf(":");
  const host = address.slice(0, colon).replaceAll(/[[\]]/g, "");
  const tls = readTls(read);
  /** `true`: serve other hosts without TLS, behind a proxy that has it. Tokens cross the network in plain text. */
  const isPlainAllowed = read.flag("GATEWAY_PLAIN_HTTP", false);
  if (tls === undefined && !isPlainAllowed && !LOOPBACK.test(host))
    // A certificate is what is missing: the reader reports it with the other problems.
    read.matching("GATEWAY_ADDR", {
      pattern: /^$/,
      needed:
        "for other hosts, GATEWAY_TLS_CERT_FILE and GATEWAY_TLS_KEY_FILE are needed, or GATEWAY_PLAIN_HTTP=true behind a proxy with TLS",
    });
  return {
    host,
    port: Number(address.slice(colon + 1)),
    tls,
    limits: {
      /** Maximum size of one request body. */
      maxBodyBytes: read.integer("GATEWAY_BODY_BYTES_MAX", { fallback: 1_048_576, min: 1024, max: 67_108_864 }),
      /** Maximum concurrent requests. */
      maxRequests: read.integer("GATEWAY_REQUESTS_MAX", { fallback: 512, min: 1, max: 100_000 }),
      /** Maximum open connections. */
      maxConnections: read.integer("GATEWAY_CONNECTIONS_MAX", { fallback: 4096, min: 1, max: 100_000 }),
      /** Time in which a client must send the headers of a request. */
      headersTimeoutMs: read.integer("GATEWAY_HEADERS_TIMEOUT_MS", { fallback: 10_000, min: 100, max: 600_000 }),
      /** Time in which a client must send a whole request. */
      requestTimeoutMs: read.integer("GATEWAY_REQUEST_TIMEOUT_MS", { fallback: 30_000, min: 100, max: 600_000 }),
    },
  };
}

function readTls(read: EnvReader): HttpConfig["tls"] {
  /** Certificate of the API, in PEM form; with it the API has TLS and HTTP/2. */
  const certFile = read.optional("GATEWAY_TLS_CERT_FILE");
  /** Key of the certificate. */
  const keyFile = read.optional("GATEWAY_TLS_KEY_FILE");
  if (certFile === undefined && keyFile === undefined) return undefined;
  return { certFile: read.text("GATEWAY_TLS_CERT_FILE"), keyFile: read.text("GATEWAY_TLS_KEY_FILE") };
}
