import { enums, toLowercaseNames, muster } from "@muster/proto";
import { pickFields, unlessDefault } from "./message-fields.ts";

/** The service applies its default to each undefined field. */
export type SessionSpec = ReturnType<typeof toSpec>;
export type ComponentSpec = SessionSpec["components"][number];

export const KINDS = toLowercaseNames(enums.ComponentKind);

/** Converts a spec to its wire format. Undefined fields stay absent, and get the service's default. */
export function toWireSpec(spec: SessionSpec): muster.session.v1.SessionSpec.$Properties {
  const components = spec.components.map((component) => ({ ...component, kind: KINDS.numbers[component.kind] }));
  return { ...spec, components };
}

export function toSpec(message = muster.session.v1.SessionSpec.create()) {
  return {
    components: message.components.map((component) => ({
      name: component.name,
      // Services store no component without a kind, so the fallback is never used.
      kind: KINDS.nameOf(component.kind) ?? "client",
      ...pickFields(component, "pool", "otherPools", "image", "command", "args"),
      env: component.env.map((variable) => pickFields(variable, "name", "value")),
      // Undefined means the image's working directory, readiness once it runs, no template, and a whole machine.
      workingDir: unlessDefault(component.workingDir),
      readyPort: unlessDefault(component.readyPort),
      templateJson: unlessDefault(component.templateJson),
      shared: component.shared ? (true as const) : undefined,
    })),
    scenarioJson: unlessDefault(message.scenarioJson),
    timeoutMs: unlessDefault(message.timeoutMs),
    queueTimeoutMs: unlessDefault(message.queueTimeoutMs),
    ttlMs: unlessDefault(message.ttlMs),
    killAfterMs: unlessDefault(message.killAfterMs),
    priority: unlessDefault(message.priority),
    queue: unlessDefault(message.queue),
    topology: unlessDefault(message.topology),
    workerPort: unlessDefault(message.workerPort),
  };
}
