import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, resolve, sep } from "node:path";
import type { V1Container, V1Pod } from "@kubernetes/client-node";
import { buildCommand, buildEnvironment, type Environment, listReferencedConfig } from "./build-environment.ts";
import { HOST_IP } from "./build-node.ts";
import { listVolumeConfig } from "./build-volume-files.ts";
import { mountVolumes } from "./mount-volumes.ts";
import type { ProcessCommand } from "./run-process.ts";
import type { PodDirectory } from "./pod-directory.ts";

export type ConfigReader = {
  /** Undefined if the object does not exist. */
  readonly configMap: (name: string) => Promise<Environment | undefined>;
  readonly secret: (name: string) => Promise<Environment | undefined>;
};

export type PreparedContainer =
  | { readonly ready: true; readonly command: ProcessCommand }
  /** `retry`: the missing object may be created later. */
  | { readonly ready: false; readonly message: string; readonly retry: boolean };

/** A longer termination message is cut, as in Kubernetes. */
const MESSAGE_BYTES = 4096;
const FALLBACK_BYTES = 2048;
const STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Prepares everything that a container's process needs, or returns why it cannot start yet. Rejects if the API server does not answer. */
export async function prepareContainer(options: {
  readonly pod: V1Pod;
  readonly container: V1Container;
  readonly podIp: string;
  readonly directory: PodDirectory;
  readonly config: ConfigReader;
  readonly path: string | undefined;
  readonly containerId: string;
}): Promise<PreparedContainer> {
  const { pod, container, podIp, directory, containerId } = options;
  const own = listReferencedConfig(container);
  const ofVolumes = (container.volumeMounts ?? []).length > 0 ? listVolumeConfig(pod) : undefined;
  const sources = {
    pod,
    podIp,
    hostIp: HOST_IP,
    base: {
      // Containers run the same `node` as this process.
      PATH: `${dirname(process.execPath)}:${options.path ?? STANDARD_PATH}`,
      HOME: directory.home,
      LANG: "C.UTF-8",
      HOSTNAME: pod.spec?.hostname ?? pod.metadata?.name ?? "",
    },
    configMaps: await readAll(new Set([...own.configMaps, ...(ofVolumes?.configMaps ?? [])]), options.config.configMap),
    secrets: await readAll(new Set([...own.secrets, ...(ofVolumes?.secrets ?? [])]), options.config.secret),
  };
  const built = buildEnvironment(container, sources);
  if (!built.built) return { ready: false, message: built.message, retry: true };
  const command = buildCommand(container, built.env);
  if (!command.built) return { ready: false, message: command.message, retry: false };
  mkdirSync(directory.home, { recursive: true });
  const problem = mountVolumes(container, pod, directory, sources);
  if (problem !== undefined) return { ready: false, message: problem, retry: true };
  const messageFile = messagePath(container, directory);
  if (messageFile !== undefined) rmSync(messageFile, { force: true });
  const workingDirectory = resolve(directory.home, container.workingDir ?? ".");
  return { ready: true, command: { command: command.command, workingDirectory, env: built.env, containerId } };
}

/** Matches the error for a port that another process uses. */
const PORT_IN_USE = /EADDRINUSE|address already in use/i;
const SHARED_NETWORK =
  "address already in use: pods of this cluster share the network of one machine, and a server on all addresses takes its port from every pod. " +
  "Every server must listen on its POD_IP (fieldRef status.podIP)";

/**
 * Returns the termination message of a container: its message file, if that is in the pod's directory. After a failure also the end of its log, if its policy
 * requests that, and the cause that only this cluster has.
 */
export function readTerminationMessage(
  container: V1Container,
  directory: PodDirectory,
  run: { readonly exitCode: number; readonly logText: () => Buffer },
): string | undefined {
  const path = messagePath(container, directory);
  const message = path === undefined ? undefined : readHead(path);
  if (message !== undefined && message !== "") return message;
  if (run.exitCode === 0) return undefined;
  const text = run.logText().subarray(-FALLBACK_BYTES).toString();
  const cause = PORT_IN_USE.test(text) ? SHARED_NETWORK : undefined;
  if (container.terminationMessagePolicy !== "FallbackToLogsOnError") return cause;
  return cause === undefined ? text : `${cause}\n${text}`;
}

/** Returns the path of the termination message; undefined outside the pod's directory. The default is a mount, which only a real container has. */
function messagePath(container: V1Container, directory: PodDirectory): string | undefined {
  if (container.terminationMessagePath === undefined) return undefined;
  const path = resolve(directory.home, container.terminationMessagePath);
  return path.startsWith(directory.root + sep) ? path : undefined;
}

function readHead(path: string): string | undefined {
  try {
    return readFileSync(path).subarray(0, MESSAGE_BYTES).toString();
  } catch {
    // A missing or unreadable message must not delay the container's end.
    return undefined;
  }
}

async function readAll(
  names: ReadonlySet<string>,
  read: (name: string) => Promise<Environment | undefined>,
): Promise<Map<string, Environment>> {
  const found = new Map<string, Environment>();
  for (const name of names) {
    const values = await read(name);
    if (values !== undefined) found.set(name, values);
  }
  return found;
}
