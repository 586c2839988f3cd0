import type { V1DownwardAPIVolumeFile, V1KeyToPath, V1Pod, V1Volume } from "@kubernetes/client-node";
import { buildEnvironment, type Environment, type EnvironmentSources } from "./build-environment.ts";

/** One file of a volume; `path` is below the volume's directory. */
export type VolumeFile = { readonly path: string; readonly content: string; readonly mode: number };

/** `files` is undefined for a volume of an unknown kind, which is not created. */
export type BuiltVolume =
  | { readonly built: true; readonly files: readonly VolumeFile[] | undefined }
  | { readonly built: false; readonly message: string };

type Reference = {
  readonly kind: "configmap" | "secret";
  readonly name: string;
  readonly optional: boolean;
  readonly items: readonly V1KeyToPath[];
};
type Source = Reference | { readonly kind: "downward"; readonly items: readonly V1DownwardAPIVolumeFile[] };

const DEFAULT_MODE = 0o644;

/** Lists the ConfigMaps and Secrets that the pod's volumes need. */
export function listVolumeConfig(pod: V1Pod): { readonly configMaps: Set<string>; readonly secrets: Set<string> } {
  const configMaps = new Set<string>();
  const secrets = new Set<string>();
  for (const source of (pod.spec?.volumes ?? []).flatMap((volume) => listSources(volume) ?? [])) {
    if (source.kind === "configmap") configMaps.add(source.name);
    if (source.kind === "secret") secrets.add(source.name);
  }
  return { configMaps, secrets };
}

/** Builds the files of one volume, or returns why its container cannot be created. Contents are text; tokens of service accounts are omitted. */
export function buildVolumeFiles(volume: V1Volume, sources: EnvironmentSources): BuiltVolume {
  const found = listSources(volume);
  if (found === undefined) return { built: true, files: undefined };
  const defaultMode =
    (volume.configMap ?? volume.secret ?? volume.downwardAPI ?? volume.projected)?.defaultMode ?? DEFAULT_MODE;
  const files: VolumeFile[] = [];
  for (const source of found) {
    const own = source.kind === "downward" ? downwardFiles(source.items, sources) : keyFiles(source, sources);
    if (typeof own === "string") return { built: false, message: `volume "${volume.name}": ${own}` };
    files.push(...own.map(({ mode, ...file }) => ({ ...file, mode: mode ?? defaultMode })));
  }
  const outside = files.find(({ path }) => path.startsWith("/") || path.split("/").includes(".."));
  if (outside === undefined) return { built: true, files };
  return { built: false, message: `volume "${volume.name}": ${outside.path} is outside of the volume` };
}

/** The sources of a volume's files, in order; undefined for unknown kinds. */
function listSources(volume: V1Volume): readonly Source[] | undefined {
  const { emptyDir, configMap, secret, downwardAPI, projected } = volume;
  if (emptyDir !== undefined) return [];
  if (configMap !== undefined) return [reference("configmap", configMap.name, configMap)];
  if (secret !== undefined) return [reference("secret", secret.secretName, secret)];
  if (downwardAPI !== undefined) return [{ kind: "downward", items: downwardAPI.items ?? [] }];
  return projected?.sources?.flatMap((source): Source[] => {
    if (source.configMap !== undefined) return [reference("configmap", source.configMap.name, source.configMap)];
    if (source.secret !== undefined) return [reference("secret", source.secret.name, source.secret)];
    if (source.downwardAPI !== undefined) return [{ kind: "downward", items: source.downwardAPI.items ?? [] }];
    return [];
  });
}

function reference(
  kind: Reference["kind"],
  name: string | undefined,
  { optional = false, items = [] }: { readonly optional?: boolean; readonly items?: readonly V1KeyToPath[] },
): Reference {
  return { kind, name: name ?? "", optional, items };
}

type Unmoded = Omit<VolumeFile, "mode"> & { readonly mode: number | undefined };

function keyFiles({ kind, name, optional, items }: Reference, sources: EnvironmentSources): Unmoded[] | string {
  const known = kind === "configmap" ? sources.configMaps : sources.secrets;
  const values: Environment | undefined = known.get(name);
  if (values === undefined) return optional ? [] : `${kind} "${name}" not found`;
  if (items.length === 0) {
    return Object.entries(values).map(([path, content]) => ({ path, content, mode: undefined }));
  }
  const files: Unmoded[] = [];
  for (const { key, path, mode } of items) {
    const content = values[key];
    if (content !== undefined) files.push({ path, content, mode });
    else if (!optional) return `couldn't find key ${key} in ${kind} "${name}"`;
  }
  return files;
}

function downwardFiles(items: readonly V1DownwardAPIVolumeFile[], sources: EnvironmentSources): Unmoded[] | string {
  const files: Unmoded[] = [];
  for (const { path, fieldRef, mode } of items) {
    if (fieldRef === undefined) return `${path}: only fieldRef is known`;
    const map = /^metadata\.(labels|annotations)$/.exec(fieldRef.fieldPath)?.[1];
    if (map === "labels" || map === "annotations") {
      const lines = Object.entries(sources.pod.metadata?.[map] ?? {}).map(
        ([key, value]) => `${key}=${JSON.stringify(value)}`,
      );
      files.push({ path, content: lines.sort().join("\n"), mode });
      continue;
    }
    const env = [{ name: "field", valueFrom: { fieldRef } }];
    const built = buildEnvironment({ name: path, env }, { ...sources, base: {} });
    if (!built.built) return built.message;
    files.push({ path, content: built.env["field"] ?? "", mode });
  }
  return files;
}
