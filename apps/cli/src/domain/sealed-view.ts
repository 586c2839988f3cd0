import { isSealed, mapSecrets, type Order, type Result } from "@muster/leases";

/** The data of an order for people; for a sealed value its recipient. */
export function showOrderData({ type, data, engine }: Pick<Order, "type" | "data" | "engine">): string {
  return mapSecrets({ kind: "order", type, data }, (secret) =>
    isSealed(secret) ? `(sealed for engine ${engine})` : secret,
  );
}

/** The data of a result for display. Each sealed secret becomes the command with which its user opens it. */
export function showResultData({ user }: Pick<Order, "user">, { type, data }: Pick<Result, "type" | "data">): string {
  return mapSecrets({ kind: "result", type, data }, (secret, field) =>
    isSealed(secret) ? `(sealed for user ${user}; \`muster lease get ID --secret ${field}\` opens it)` : secret,
  );
}

/** Names of the sealed values in the data of an order. */
export function sealedFields({ type, data }: Pick<Order, "type" | "data">): string[] {
  const fields: string[] = [];
  mapSecrets({ kind: "order", type, data }, (secret, field) => {
    if (isSealed(secret)) fields.push(field);
    return secret;
  });
  return fields;
}
