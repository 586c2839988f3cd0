export { keepFacts } from "./keep-facts.ts";
export { podHealth } from "./pod-health.ts";
export type { Health, HealthPolicy, PodVerdict } from "./pod-health.ts";
export type { ContainerStatusFacts, PodFacts } from "./pod-facts.ts";
