import { chmodSync, existsSync, lstatSync, mkdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import type { V1Container, V1Pod } from "@kubernetes/client-node";
import type { EnvironmentSources } from "./build-environment.ts";
import { buildVolumeFiles } from "./build-volume-files.ts";
import type { PodDirectory } from "./pod-directory.ts";

/**
 * Links the volumes of one container into its HOME. A process has no mounts of its own, so `mountPath` is relative to HOME: `/etc/config` is
 * `$HOME/etc/config`, a link to the pod's volume. Returns the problem, or undefined. Files of ConfigMaps, Secrets and fields are written only at each start of
 * a container.
 */
export function mountVolumes(
  container: V1Container,
  pod: V1Pod,
  directory: PodDirectory,
  sources: EnvironmentSources,
): string | undefined {
  for (const { name, mountPath, subPath = "" } of container.volumeMounts ?? []) {
    const volume = pod.spec?.volumes?.find((each) => each.name === name);
    if (volume === undefined) return `volume "${name}" is in no spec`;
    const built = buildVolumeFiles(volume, sources);
    if (!built.built) return built.message;
    if (built.files === undefined) continue;
    const root = join(directory.root, "volumes", name);
    mkdirSync(root, { recursive: true });
    for (const { path, content, mode } of built.files) {
      const file = join(root, path);
      mkdirSync(dirname(file), { recursive: true });
      // A read-only file could not be overwritten.
      rmSync(file, { force: true });
      writeFileSync(file, content);
      chmodSync(file, mode);
    }
    const target = join(root, subPath);
    if (!(target + sep).startsWith(root + sep)) return `volume "${name}": subPath ${subPath} is outside of the volume`;
    if (!existsSync(target)) mkdirSync(target, { recursive: true });
    const problem = link(join(directory.home, mountPath), target, mountPath);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** The containers of a pod share HOME, so two different volumes cannot have one path. */
function link(place: string, target: string, mountPath: string): string | undefined {
  const old = lstatSync(place, { throwIfNoEntry: false });
  if (old === undefined) {
    mkdirSync(dirname(place), { recursive: true });
    symlinkSync(target, place);
    return undefined;
  }
  if (old.isSymbolicLink() && readlinkSync(place) === target) return undefined;
  return `mountPath ${mountPath}: something else of this pod is there already, and its containers share one HOME`;
}
