/** Returns why sessions of the namespace do not run. */
export function describeUnserved(namespace: string, own: string): string {
  return (
    `the namespace "${namespace}" is not served: this session-controller runs the sessions of the namespace "${own}", ` +
    "and with SESSION_NAMESPACES=all of namespaces that a queue serves"
  );
}
