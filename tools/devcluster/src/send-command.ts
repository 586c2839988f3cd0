/** Address at which another process takes commands, and the token that it requires. */
export type ControlAddress = { readonly url: string; readonly token: string };

/** Sends a command as JSON and returns the answer. Throws the words of a refusal. */
export async function sendCommand({ url, token }: ControlAddress, command: object): Promise<unknown> {
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(command) });
  if (!response.ok) throw new Error(`sending ${JSON.stringify(command)}: ${await response.text()}`);
  return response.json();
}
