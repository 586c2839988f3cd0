/** What the environment says, read once. */
export type Config = {
  readonly natsUrl: string | undefined;
  readonly token: string | undefined;
  /** File in which `npm start -- --keep` says where the local stack is. */
  readonly localFile: string;
  /** The private key that orders of leases are signed with, where it is no file. */
  readonly key: string | undefined;
  readonly keyFile: string;
  readonly colours: boolean;
  /** Width of the terminal where somebody knows it better than the terminal does. */
  readonly columns: number | undefined;
};

export function readConfig(
  env: Readonly<Record<string, string | undefined>>,
  defaults: { readonly localFile: string; readonly keyFile: string },
): Config {
  return {
    natsUrl: text(env["MUSTER_NATS_URL"]),
    token: text(env["MUSTER_NATS_TOKEN"]),
    localFile: text(env["MUSTER_LOCAL_FILE"]) ?? defaults.localFile,
    key: text(env["MUSTER_KEY"]),
    keyFile: text(env["MUSTER_KEY_FILE"]) ?? defaults.keyFile,
    // As https://no-color.org says: present and not empty means no colours.
    colours: text(env["NO_COLOR"]) === undefined && env["TERM"] !== "dumb",
    columns: /^[1-9]\d{0,4}$/.test(env["COLUMNS"] ?? "") ? Number(env["COLUMNS"]) : undefined,
  };
}

function text(value: string | undefined): string | undefined {
  return value === undefined || value === "" ? undefined : value;
}
