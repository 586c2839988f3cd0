import { listCommonTolerations, type ComponentPlace, type Toleration } from "@muster/resources";
import { computeTemplateRequests } from "@muster/session-limits";
import { listComponentTolerations, getTemplate } from "./component-need.ts";
import { findGrantedNode } from "./replace-machines.ts";
import type { Component, ComponentStatus, SessionRecord } from "./session.ts";
import type { Snapshot } from "./snapshot.ts";
import { hasEnded } from "./summarise-components.ts";

type Session = Pick<Snapshot, "record" | "replacements">;

/** The machines of a session's components, from which lost machines are determined. */
export type ComponentMachines = {
  /** The machines of all components, and the replacements of lost machines. */
  readonly nodes: ReadonlySet<string>;
  /** The machines that components have lost. */
  readonly lostNodes: readonly string[];
  /** The nodes of shared components. */
  readonly sharedNodes: ReadonlySet<string>;
  readonly tolerations: ReadonlyMap<string, readonly Toleration[]>;
};

const known = new WeakMap<SessionRecord, ComponentMachines>();

/** Lists the machines of the session's components. Cached, because most passes observe an unchanged record. */
export function listComponentMachines({ record, replacements }: Session): ComponentMachines {
  if (replacements.size > 0) return listMachines({ record, replacements });
  const machines = known.get(record) ?? listMachines({ record, replacements });
  known.set(record, machines);
  return machines;
}

function listMachines({ record, replacements }: Session): ComponentMachines {
  const specs = new Map(record.spec.components.map((component) => [component.name, component]));
  const machines = record.components.map((status) => {
    const nodes = [status.node, findGrantedNode(replacements.get(status.name)) ?? ""].filter((node) => node !== "");
    return { spec: specs.get(status.name), nodes, lostNode: status.lostNode };
  });
  const lostNodes = machines.flatMap(({ lostNode }) => (lostNode === "" ? [] : [lostNode]));
  const placed = machines.flatMap(({ spec, nodes, lostNode }) => {
    const tolerations = spec === undefined ? [] : listComponentTolerations(spec);
    return [...nodes, ...(lostNode === "" ? [] : [lostNode])].map((node) => ({ node, tolerations }));
  });
  return {
    nodes: new Set(machines.flatMap(({ nodes }) => nodes)),
    lostNodes,
    sharedNodes: new Set(machines.flatMap(({ spec, nodes }) => (spec?.shared === true ? nodes : []))),
    tolerations: listCommonTolerations(placed),
  };
}

/**
 * Lists the machines on which pods of shared components still have to be placed. For a component that waits for a replacement, these are its lost machine and
 * the granted one.
 */
export function listComponentPlaces({
  record,
  replacements,
  pods,
}: Session & Pick<Snapshot, "pods">): readonly ComponentPlace[] {
  const statuses = new Map(record.components.map((status) => [status.name, status]));
  return record.spec.components.flatMap((component): ComponentPlace[] => {
    const status = statuses.get(component.name);
    if (!component.shared || status === undefined || hasEnded(status) || status.podIp !== "") return [];
    const nodes = [status.node, status.lostNode, findGrantedNode(replacements.get(component.name)) ?? ""];
    const open = new Set(nodes.filter((node) => node !== "" && !hasPodOn(pods, status, node)));
    return [...open].map((node) => ({ component: component.name, node, requests: () => requestsOf(component) }));
  });
}

function requestsOf(component: Component) {
  return computeTemplateRequests(getTemplate(component));
}

function hasPodOn(pods: Snapshot["pods"], { podUid }: ComponentStatus, node: string): boolean {
  return pods.some((pod) => pod.uid === podUid && pod.node === node && !pod.deleted);
}
