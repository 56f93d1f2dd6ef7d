import type { AgentCard } from '@a2a-js/sdk'
import type { A2ARequestHandler, ServerCallContext } from '@a2a-js/sdk/server'
import { URL_KEY } from './executor.ts'

/**
 * One handler for all agents that were removed, are paused, or cannot run now. Callers that have paid for their work still get
 * it (T23). To make an HTTP+JSON binding for each id that a stranger makes up would take longer than its request (T31).
 *
 * @param handlerOf the handler of one such agent, by its id
 */
export function leftAgents(card: AgentCard, handlerOf: (id: string) => A2ARequestHandler): A2ARequestHandler {
  const of = ({ state }: ServerCallContext) => handlerOf(String(state.get(URL_KEY)).split('/').at(-1)!)
  return {
    getAgentCard: async () => card,
    getAuthenticatedExtendedAgentCard: (params, context) =>
      of(context).getAuthenticatedExtendedAgentCard(params, context),
    sendMessage: (params, context) => of(context).sendMessage(params, context),
    sendMessageStream: (params, context) => of(context).sendMessageStream(params, context),
    getTask: (params, context) => of(context).getTask(params, context),
    listTasks: (params, context) => of(context).listTasks(params, context),
    cancelTask: (params, context) => of(context).cancelTask(params, context),
    resubscribe: (params, context) => of(context).resubscribe(params, context),
    createTaskPushNotificationConfig: (params, context) =>
      of(context).createTaskPushNotificationConfig(params, context),
    getTaskPushNotificationConfig: (params, context) => of(context).getTaskPushNotificationConfig(params, context),
    listTaskPushNotificationConfigs: (params, context) => of(context).listTaskPushNotificationConfigs(params, context),
    deleteTaskPushNotificationConfig: (params, context) =>
      of(context).deleteTaskPushNotificationConfig(params, context),
  }
}
