import type { GatewayVariables } from "./domain/decide-gateway.ts";

export type Variables = Readonly<Record<string, string | undefined>>;

const NATS_VARIABLES = [
  "MUSTER_NATS_NKEY",
  "MUSTER_NATS_NKEY_FILE",
  "MUSTER_NATS_TOKEN",
  "MUSTER_NATS_CA_FILE",
  "MUSTER_NATS_CERT_FILE",
  "MUSTER_NATS_KEY_FILE",
];

/** The configuration from the environment, read once. */
export type Config = {
  /** The address and the credential of the gateway; `natsUrl` precedes its contexts. */
  readonly gateway: GatewayVariables;
  /** The file of contexts, which name gateways and their users. */
  readonly contextFile: string;
  readonly natsUrl: string | undefined;
  /** The values of the credential's variables; their files are not read yet. */
  readonly natsVariables: Variables;
  /** Files in which `npm start -- --keep` and `docker compose up` state the address of their stack; the first running stack is used. */
  readonly localFiles: readonly string[];
  /** The private key that signs orders of leases, if it is not in a file. */
  readonly key: string | undefined;
  readonly keyFile: string;
  readonly colours: boolean;
  /** The width of the terminal, which overrides the one that the terminal reports. */
  readonly columns: number | undefined;
};

export function readConfig(
  env: Variables,
  defaults: { readonly localFiles: readonly string[]; readonly keyFile: string; readonly contextFile: string },
): Config {
  /**
   * File in which the local stack states its address.
   *
   * @default .muster/local.json in the repository, then .muster-compose/local.json
   */
  const localFile = text(env["MUSTER_LOCAL_FILE"]);
  /**
   * The NATS server; `--nats-url` overrides it. MUSTER_SERVER precedes it, and it precedes the current context.
   *
   * @default the local stack, else nats://127.0.0.1:4222
   */
  const natsUrl = text(env["MUSTER_NATS_URL"]);
  return {
    natsUrl,
    gateway: {
      natsUrl,
      /** The gateway, instead of NATS: `https://muster.example.com`; `--server` overrides it. */
      server: text(env["MUSTER_SERVER"]),
      /** The token for the gateway. Precedes MUSTER_TOKEN_FILE and the user of the context; `--token-file` precedes all. */
      token: text(env["MUSTER_TOKEN"]),
      /** File of that token, readable only by its owner. */
      tokenFile: text(env["MUSTER_TOKEN_FILE"]),
      /**
       * File of the CA certificates that verify the gateway; `--certificate-authority` overrides it.
       *
       * @default the CA certificates of Node
       */
      caFile: text(env["MUSTER_SERVER_CA_FILE"]),
      /** `true`: use a gateway on another machine without TLS. Tokens cross the network in plain text. */
      isPlainHttpAllowed: env["MUSTER_PLAIN_HTTP"] === "true",
    },
    /**
     * File of contexts: gateways and their users, in the form of a kubeconfig.
     *
     * @default ~/.config/muster/config.yaml
     */
    contextFile: text(env["MUSTER_CONFIG"]) ?? defaults.contextFile,
    natsVariables: Object.fromEntries(NATS_VARIABLES.map((name) => [name, text(env[name])])),
    localFiles: localFile === undefined ? defaults.localFiles : [localFile],
    /** Private key that signs orders of leases, in hexadecimal. Precedes the file; `--key-file` precedes both. */
    key: text(env["MUSTER_KEY"]),
    /**
     * File of that key, readable only by its owner.
     *
     * @default ~/.config/muster/key
     */
    keyFile: text(env["MUSTER_KEY_FILE"]) ?? defaults.keyFile,
    colours: hasColours(env),
    /** Columns of the terminal that tables fit into. Without it, its own. Nothing is cut if standard output is no terminal. */
    columns: /^[1-9]\d{0,4}$/.test(env["COLUMNS"] ?? "") ? Number(env["COLUMNS"]) : undefined,
  };
}

function hasColours(env: Variables): boolean {
  /** Not empty: no colours (https://no-color.org). */
  const isRefused = text(env["NO_COLOR"]) !== undefined;
  /** `dumb`: no colours. */
  const isDumb = env["TERM"] === "dumb";
  return !isRefused && !isDumb;
}

function text(value: string | undefined): string | undefined {
  return value === undefined || value === "" ? undefined : value;
}
