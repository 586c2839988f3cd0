import {
  NO_DEFAULTS,
  readNodeSelection,
  restrictSelection,
  readTolerations,
  withMinimum,
  type NodeSelection,
  type PodDefaults,
  type Requests,
  type Toleration,
} from "@muster/resources";
import { computeTemplateRequests, type ComponentTemplate } from "@muster/session-limits";
import type { Component } from "./session.ts";

export type ComponentNeed = {
  readonly component: string;
  readonly pool: string;
  readonly otherPools?: readonly string[];
  /** The requests of its part of a machine; absent: a whole machine. */
  readonly shared?: Requests;
  /** The nodes that the component's pod accepts; a whole machine must also hold its requests. Absent: each node without taints. */
  readonly selection?: NodeSelection;
};

/** Computes the need of a component. `defaults`: requests that admission adds to its pod. */
export function buildComponentNeed(
  component: Component,
  poolLabel: string,
  defaults: PodDefaults = NO_DEFAULTS,
): ComponentNeed {
  const template = getTemplate(component);
  const requests = computeTemplateRequests(template, defaults);
  const nodes = readNodeSelection(template.spec, poolLabel);
  const selection = component.shared ? nodes : withMinimum(nodes, requests);
  const { pool, otherPools } = component;
  return {
    component: component.name,
    pool,
    ...(otherPools.length > 0 && { otherPools }),
    ...(component.shared && { shared: requests }),
    ...(selection !== undefined && { selection }),
  };
}

/** Returns the need restricted to the granted topology domain; the need itself for a session without a topology. */
export function inDomain(
  need: ComponentNeed,
  granted: { readonly topology?: string; readonly domain?: string } | undefined,
): ComponentNeed {
  const { topology, domain } = granted ?? {};
  if (topology === undefined || domain === undefined) return need;
  const requirement = { key: topology, operator: "In", values: [domain] };
  return { ...need, selection: restrictSelection(need.selection, requirement) };
}

/** Lists the tolerations of the component's pod. */
export function listComponentTolerations(component: Component): readonly Toleration[] {
  return readTolerations(getTemplate(component).spec);
}

const templates = new WeakMap<Component, ComponentTemplate>();

/** Parses the template of a component, which was checked at submission. */
export function getTemplate(component: Component): ComponentTemplate {
  const known = templates.get(component);
  if (known !== undefined) return known;
  const { templateJson } = component;
  const template = templateJson === "" ? { spec: {} } : (JSON.parse(templateJson) as ComponentTemplate);
  templates.set(component, template);
  return template;
}
