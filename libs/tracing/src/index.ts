export { envFromContext, injectTrace, extractTrace, traceparentOf } from "./propagation.ts";
export { inSpan } from "./span.ts";
