import { CodedError } from '../../lib/errors.ts'
import type { Problem } from '../../schema/api.ts'

export class ApiError extends CodedError {
  override name = 'ApiError'
  readonly status: number
  readonly problem: Problem

  constructor(problem: Problem) {
    super(problem.code, problem.detail)
    this.status = problem.status
    this.problem = problem
  }
}
