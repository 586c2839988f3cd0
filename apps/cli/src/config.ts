export type Variables = Readonly<Record<string, string | undefined>>;

const NATS_VARIABLES = [
  "MUSTER_NATS_NKEY",
  "MUSTER_NATS_NKEY_FILE",
  "MUSTER_NATS_TOKEN",
  "MUSTER_NATS_CA_FILE",
  "MUSTER_NATS_CERT_FILE",
  "MUSTER_NATS_KEY_FILE",
];

/** The environment, read once. */
export type Config = {
  readonly natsUrl: string | undefined;
  /** The variables of its credential, unread. */
  readonly natsVariables: Variables;
  /** Files in which `npm start -- --keep` and `docker compose up` say where their stack is; the first that runs is meant. */
  readonly localFiles: readonly string[];
  /** The private key that orders of leases are signed with, where it is no file. */
  readonly key: string | undefined;
  readonly keyFile: string;
  readonly colours: boolean;
  /** The width of the terminal, instead of what that reports. */
  readonly columns: number | undefined;
};

export function readConfig(
  env: Variables,
  defaults: { readonly localFiles: readonly string[]; readonly keyFile: string },
): Config {
  /**
   * File in which the local stack states its address.
   *
   * @default .muster/local.json in the repository, then .muster-compose/local.json
   */
  const localFile = text(env["MUSTER_LOCAL_FILE"]);
  return {
    /**
     * The NATS server; `--nats-url` overrides it.
     *
     * @default the local stack, else nats://127.0.0.1:4222
     */
    natsUrl: text(env["MUSTER_NATS_URL"]),
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
