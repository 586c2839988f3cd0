export { checkComponentTemplate } from "./check-component-template.ts";
export type { ComponentTemplate, TemplateContainer } from "./check-component-template.ts";
export { checkShared, computeTemplateRequests } from "./check-shared.ts";
export { findOptionsProblem, findPoolProblem } from "./find-pool-problem.ts";
export { COMPONENT_TEMPLATE_SCHEMA, MAIN_CONTAINER } from "./component-template.ts";
export { MAX_POD_NAME_LENGTH, SESSION_DEFAULTS, SESSION_LIMITS, countSessionTextBytes } from "./session-limits.ts";
