import type { V1Container, V1EnvVar, V1Pod } from "@kubernetes/client-node";

export type Environment = Readonly<Record<string, string>>;

/** The sources of a container's variables. A ConfigMap or Secret that does not exist is absent. */
export type EnvironmentSources = {
  readonly pod: V1Pod;
  readonly podIp: string;
  readonly hostIp: string;
  /** The variables of every process; the container's own variables win. */
  readonly base: Environment;
  readonly configMaps: ReadonlyMap<string, Environment>;
  /** Values decoded from base64. */
  readonly secrets: ReadonlyMap<string, Environment>;
};

/** An environment, or why the container cannot be created. */
export type BuiltEnvironment =
  { readonly built: true; readonly env: Environment } | { readonly built: false; readonly message: string };

/** Lists the ConfigMaps and Secrets to read before the environment can be built. */
export function listReferencedConfig(container: V1Container): { configMaps: Set<string>; secrets: Set<string> } {
  const configMaps = new Set<string>();
  const secrets = new Set<string>();
  for (const { configMapRef, secretRef } of container.envFrom ?? []) {
    if (configMapRef?.name !== undefined) configMaps.add(configMapRef.name);
    if (secretRef?.name !== undefined) secrets.add(secretRef.name);
  }
  for (const { valueFrom } of container.env ?? []) {
    if (valueFrom?.configMapKeyRef?.name !== undefined) configMaps.add(valueFrom.configMapKeyRef.name);
    if (valueFrom?.secretKeyRef?.name !== undefined) secrets.add(valueFrom.secretKeyRef.name);
  }
  return { configMaps, secrets };
}

/** Builds the environment of a container's process. As in Kubernetes, `$(NAME)` in a value refers only to variables before it in `env`. */
export function buildEnvironment(container: V1Container, sources: EnvironmentSources): BuiltEnvironment {
  const fromSources = importedVariables(container, sources);
  if (typeof fromSources === "string") return { built: false, message: fromSources };
  const own: Record<string, string> = {};
  for (const variable of container.env ?? []) {
    const found = resolveValue(variable, sources, own);
    if ("problem" in found) return { built: false, message: found.problem };
    if (found.value !== undefined) own[variable.name] = found.value;
  }
  return { built: true, env: { ...sources.base, ...fromSources, ...own } };
}

/** Expands `$(NAME)` as Kubernetes does: `$$` is a dollar, and an unknown name stays unchanged. */
export function expandVariables(text: string, variables: Environment): string {
  return text.replace(/\$(?:\$|\(([^)]*)\))/g, (whole, name: string | undefined) => {
    if (name === undefined) return "$";
    return Object.hasOwn(variables, name) ? (variables[name] ?? "") : whole;
  });
}

type Found = { readonly value: string | undefined } | { readonly problem: string };

function importedVariables(container: V1Container, sources: EnvironmentSources): Environment | string {
  const imported: Record<string, string> = {};
  for (const { prefix = "", configMapRef, secretRef } of container.envFrom ?? []) {
    const [kind, reference, known] =
      configMapRef === undefined
        ? (["secret", secretRef, sources.secrets] as const)
        : (["configmap", configMapRef, sources.configMaps] as const);
    const name = reference?.name ?? "";
    const values = known.get(name);
    if (values === undefined && reference?.optional !== true) return `${kind} "${name}" not found`;
    for (const [key, value] of Object.entries(values ?? {})) imported[prefix + key] = value;
  }
  return imported;
}

function resolveValue(variable: V1EnvVar, sources: EnvironmentSources, before: Environment): Found {
  const { valueFrom } = variable;
  if (valueFrom === undefined) return { value: expandVariables(variable.value ?? "", before) };
  if (valueFrom.configMapKeyRef !== undefined) {
    return resolveKey("configmap", valueFrom.configMapKeyRef, sources.configMaps);
  }
  if (valueFrom.secretKeyRef !== undefined) return resolveKey("secret", valueFrom.secretKeyRef, sources.secrets);
  if (valueFrom.fieldRef !== undefined) return resolveField(valueFrom.fieldRef.fieldPath, sources);
  return { problem: `variable ${variable.name}: this kubelet knows fieldRef, configMapKeyRef and secretKeyRef only` };
}

function resolveKey(
  kind: "configmap" | "secret",
  reference: { readonly name?: string; readonly key: string; readonly optional?: boolean },
  known: ReadonlyMap<string, Environment>,
): Found {
  const { name = "", key, optional = false } = reference;
  const value = known.get(name)?.[key];
  if (value !== undefined || optional) return { value };
  if (!known.has(name)) return { problem: `${kind} "${name}" not found` };
  return { problem: `couldn't find key ${key} in ${kind} "${name}"` };
}

const MAP_FIELD = /^metadata\.(labels|annotations)\['([^']+)'\]$/;

function resolveField(path: string, { pod, podIp, hostIp }: EnvironmentSources): Found {
  const map = MAP_FIELD.exec(path);
  if (map !== null) {
    const values = map[1] === "labels" ? pod.metadata?.labels : pod.metadata?.annotations;
    return { value: values?.[map[2] ?? ""] ?? "" };
  }
  switch (path) {
    case "metadata.name":
      return { value: pod.metadata?.name ?? "" };
    case "metadata.namespace":
      return { value: pod.metadata?.namespace ?? "" };
    case "metadata.uid":
      return { value: pod.metadata?.uid ?? "" };
    case "spec.nodeName":
      return { value: pod.spec?.nodeName ?? "" };
    case "spec.serviceAccountName":
      return { value: pod.spec?.serviceAccountName ?? "" };
    case "status.podIP":
    case "status.podIPs":
      return { value: podIp };
    case "status.hostIP":
    case "status.hostIPs":
      return { value: hostIp };
    default:
      return { problem: `fieldRef ${path} is not known` };
  }
}

/** Returns the command line of a container, or why it has none: a process has no entrypoint of an image. */
export function buildCommand(
  container: V1Container,
  env: Environment,
): { readonly built: true; readonly command: string[] } | { readonly built: false; readonly message: string } {
  const command = container.command ?? [];
  if (command.length === 0) {
    const why = `container "${container.name}" has no command: this cluster pulls no images and runs commands as processes`;
    return {
      built: false,
      message: `${why}. Set \`command\`, or use a real cluster (\`npm start -- --kubeconfig FILE\`)`,
    };
  }
  return { built: true, command: [...command, ...(container.args ?? [])].map((part) => expandVariables(part, env)) };
}
