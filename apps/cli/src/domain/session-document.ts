import type { ComponentSpec, SessionSpec } from "../adapters/session-spec-messages.ts";
import { formatDuration } from "@muster/faults";
import { API_GROUP } from "@muster/names";
import { listAcceptedPools } from "@muster/resources";
import type { DocumentName } from "./read-name.ts";

export const API_VERSION = `${API_GROUP}/v1`;

export const COMPONENT_KINDS = ["driver", "server", "client"] as const;
export type ComponentKind = ComponentSpec["kind"];

/** A YAML document of kind Session that is valid as far as can be known without the services. */
export type SessionDocument = { readonly name: DocumentName; readonly spec: SessionSpec };

/** Builds plain data in the form of a YAML document; reading it gives the same session. Replicas appear one by one. */
export function buildDocument(document: SessionDocument): Record<string, unknown> {
  const { name, spec } = document;
  return {
    apiVersion: API_VERSION,
    kind: "Session",
    metadata: "exact" in name ? { name: name.exact } : { generateName: name.prefix },
    spec: buildSpec(spec),
  };
}

/** Builds the `spec` of a document. */
export function buildSpec(spec: SessionSpec): Record<string, unknown> {
  return withoutUndefined({
    components: spec.components.map((component) =>
      withoutUndefined({
        name: component.name,
        kind: component.kind,
        pool: component.otherPools.length === 0 ? component.pool : listAcceptedPools(component),
        image: component.image === "" ? undefined : component.image,
        command: unlessEmpty(component.command),
        args: unlessEmpty(component.args),
        env: unlessEmpty(component.env),
        workingDir: component.workingDir,
        readyPort: component.readyPort,
        shared: component.shared,
        template: component.templateJson === undefined ? undefined : parseOrText(component.templateJson),
      }),
    ),
    scenario: spec.scenarioJson === undefined ? undefined : parseOrText(spec.scenarioJson),
    timeout: duration(spec.timeoutMs),
    queueTimeout: duration(spec.queueTimeoutMs),
    ttl: duration(spec.ttlMs),
    killAfter: duration(spec.killAfterMs),
    priority: spec.priority,
    queue: spec.queue,
    topology: spec.topology,
    workerPort: spec.workerPort,
  });
}

function duration(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : formatDuration(ms);
}

function unlessEmpty<Value>(list: readonly Value[]): readonly Value[] | undefined {
  return list.length === 0 ? undefined : list;
}

function withoutUndefined(record: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}

/** Parses JSON; returns a text that is no JSON unchanged. */
export function parseOrText(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}
