import { stat } from "node:fs/promises";
import { KubeConfig, type RequestContext, type User } from "@kubernetes/client-node";

/**
 * Loads a kubeconfig file, or the service account of the pod if no file is named. Ignores KUBECONFIG, so that the cluster is chosen explicitly. Reads the
 * credential again when the file has changed: the next request uses it, a client certificate within five minutes.
 */
export function loadKube(file: string | undefined): KubeConfig {
  if (file !== undefined) return new FileKubeConfig(file);
  const config = new KubeConfig();
  config.loadFromCluster();
  return config;
}

/** Keeps the initial cluster and user name, whatever context the file names later: a credential of another cluster is invalid here. */
class FileKubeConfig extends KubeConfig {
  readonly #file: string;
  /** Identifies the version of the file that the credential was read from; empty before the first request. */
  #stamp = "";

  constructor(file: string) {
    super();
    this.#file = file;
    this.loadFromFile(file);
  }

  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    await this.#reloadUser();
    await super.applySecurityAuthentication(context);
  }

  override async applyToHTTPSOptions(...[options]: Parameters<KubeConfig["applyToHTTPSOptions"]>): Promise<void> {
    await this.#reloadUser();
    await super.applyToHTTPSOptions(options);
  }

  /** Reads a missing or half-written file again at the next request; until then the known credential is used. */
  async #reloadUser(): Promise<void> {
    const stamp = await readStamp(this.#file);
    if (stamp === undefined || stamp === this.#stamp) return;
    const user = readUser(this.#file, this.getCurrentUser()?.name);
    if (user === undefined) return;
    this.users = this.users.map((known) => (known.name === user.name ? user : known));
    this.#stamp = stamp;
  }
}

async function readStamp(file: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeNs } = await stat(file, { bigint: true });
    return `${ino} ${size} ${mtimeNs}`;
  } catch {
    return undefined;
  }
}

function readUser(file: string, name: string | undefined): User | undefined {
  const config = new KubeConfig();
  try {
    config.loadFromFile(file);
  } catch {
    return undefined;
  }
  return config.users.find((user) => user.name === name);
}
